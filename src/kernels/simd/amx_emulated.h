// The tile registers of amx.h emulated by AVX-512 with VNNI: slow, but with the same bits on CPUs
// without AMX.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/simd/avx512.h"

namespace forerun {
namespace simd {
namespace {

struct EmulatedTiles {
  FORERUN_INLINE void configure(const int64_t (&rows)[8], const int64_t (&row_bytes)[8]) {
    Registers& tiles = registers();
    for (int tile = 0; tile < 8; ++tile) {
      tiles.rows[tile] = rows[tile];
      tiles.row_bytes[tile] = row_bytes[tile];
    }
  }
  template <int kTile>
  FORERUN_INLINE void zero() {
    Registers& tiles = registers();
    for (auto& row : tiles.bytes[kTile]) Avx512::store_int(row, Avx512::zero_int());
  }
  template <int kTile>
  FORERUN_INLINE void load(const void* from, int64_t stride_bytes) {
    Registers& tiles = registers();
    const char* at = static_cast<const char*>(from);
    for (int64_t row = 0; row < tiles.rows[kTile]; ++row, at += stride_bytes) {
      __builtin_memcpy(tiles.bytes[kTile][row], at, static_cast<size_t>(tiles.row_bytes[kTile]));
    }
  }
  template <int kTile>
  FORERUN_INLINE void store(void* to, int64_t stride_bytes) {
    const Registers& tiles = registers();
    char* at = static_cast<char*>(to);
    for (int64_t row = 0; row < tiles.rows[kTile]; ++row, at += stride_bytes) {
      __builtin_memcpy(at, tiles.bytes[kTile][row], static_cast<size_t>(tiles.row_bytes[kTile]));
    }
  }
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_bf16() {
    Registers& tiles = registers();
    // The mode rounds to nearest, raises no exceptions, and treats denormals as zero in operands
    // and results. The arithmetic is in a function that is not inlined, since compilers would move
    // it across the change of mode.
    const unsigned before = _mm_getcsr();
    _mm_setcsr(0x1f80u | 0x8040u);
    dot_bf16_rows(tiles.bytes[kSums], tiles.bytes[kInputs], tiles.rows[kInputs],
                  tiles.row_bytes[kInputs] / 4, tiles.bytes[kWeights]);
    _mm_setcsr(before);
  }
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_int8() {
    Registers& tiles = registers();
    for (int64_t row = 0; row < tiles.rows[kInputs]; ++row) {
      Avx512::I sum = Avx512::load_int(tiles.bytes[kSums][row]);
      for (int64_t four = 0; four < tiles.row_bytes[kInputs] / 4; ++four) {
        sum = _mm512_dpbusd_epi32(sum, Avx512::load_int(tiles.bytes[kWeights][four]),
                                  word_everywhere(tiles.bytes[kInputs][row] + 4 * four));
      }
      Avx512::store_int(tiles.bytes[kSums][row], sum);
    }
  }
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_signed() {
    Registers& tiles = registers();
    // Signed bytes are unsigned ones with a flipped sign bit, less 128.
    const Avx512::I flipped = Avx512::set1_int(static_cast<int32_t>(0x80808080u));
    for (int64_t row = 0; row < tiles.rows[kInputs]; ++row) {
      Avx512::I sum = Avx512::load_int(tiles.bytes[kSums][row]);
      for (int64_t four = 0; four < tiles.row_bytes[kInputs] / 4; ++four) {
        const Avx512::I x = word_everywhere(tiles.bytes[kInputs][row] + 4 * four);
        const Avx512::I w = Avx512::load_int(tiles.bytes[kWeights][four]);
        const Avx512::I above = _mm512_dpbusd_epi32(Avx512::zero_int(), flipped, x);
        sum = _mm512_dpbusd_epi32(sum, _mm512_xor_si512(w, flipped), x);
        sum = Avx512::sub_int(sum, above);
      }
      Avx512::store_int(tiles.bytes[kSums][row], sum);
    }
  }

 private:
  struct alignas(64) Registers {
    char bytes[8][16][64];
    int64_t rows[8];
    int64_t row_bytes[8];
  };
  static Registers& registers() {
    thread_local Registers tiles;
    return tiles;
  }

  FORERUN_INLINE Avx512::I word_everywhere(const char* at) {
    int32_t word = 0;
    __builtin_memcpy(&word, at, 4);
    return Avx512::set1_int(word);
  }

  // Computes TDPBF16PS: the products of even inputs are added in one chain of fused multiply-adds,
  // those of odd inputs in another; the sum of both is added to the accumulator.
  [[gnu::noinline]] static void dot_bf16_rows(char (*sums)[64], const char (*inputs)[64],
                                              int64_t rows, int64_t pairs,
                                              const char (*weights)[64]) {
    for (int64_t row = 0; row < rows; ++row) {
      Avx512::F even = Avx512::zero();
      Avx512::F odd = Avx512::zero();
      for (int64_t pair = 0; pair < pairs; ++pair) {
        const Avx512::I x = word_everywhere(inputs[row] + 4 * pair);
        const Avx512::I w = Avx512::load_int(weights[pair]);
        even = Avx512::fma(even_bf16<Avx512>(x), even_bf16<Avx512>(w), even);
        odd = Avx512::fma(odd_bf16<Avx512>(x), odd_bf16<Avx512>(w), odd);
      }
      float* const to = reinterpret_cast<float*>(sums[row]);
      Avx512::store(to, Avx512::add(Avx512::load(to), Avx512::add(even, odd)));
    }
  }
};

}  // namespace
}  // namespace simd
}  // namespace forerun
