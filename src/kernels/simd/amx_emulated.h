// The tile registers of amx.h emulated by AVX-512 with VNNI: slow, but with the same bits on
// processors without AMX.
#pragma once

#include "kernels/simd/avx512.h"

namespace forerun {
namespace simd {
namespace {

struct EmulatedTiles {
  FORERUN_INLINE void configure(const int64_t (&rows)[8]) {
    for (int tile = 0; tile < 8; ++tile) registers().rows[tile] = rows[tile];
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
      Avx512::store_int(tiles.bytes[kTile][row], Avx512::load_int(at));
    }
  }
  template <int kTile>
  FORERUN_INLINE void store(void* to, int64_t stride_bytes) {
    const Registers& tiles = registers();
    char* at = static_cast<char*>(to);
    for (int64_t row = 0; row < tiles.rows[kTile]; ++row, at += stride_bytes) {
      Avx512::store_int(at, Avx512::load_int(tiles.bytes[kTile][row]));
    }
  }
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_bf16() {
    Registers& tiles = registers();
    // Rounding to nearest, no exceptions, denormals are zero in operands and results. The
    // arithmetic is in a function that is not inlined, since compilers would move it across the
    // change of mode.
    const unsigned before = _mm_getcsr();
    _mm_setcsr(0x1f80u | 0x8040u);
    dot_bf16_rows(tiles.bytes[kSums], tiles.bytes[kInputs], tiles.rows[kInputs],
                  tiles.bytes[kWeights]);
    _mm_setcsr(before);
  }
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_int8() {
    Registers& tiles = registers();
    for (int64_t row = 0; row < tiles.rows[kInputs]; ++row) {
      Avx512::I sum = Avx512::load_int(tiles.bytes[kSums][row]);
      for (int four = 0; four < 16; ++four) {
        sum = _mm512_dpbusd_epi32(sum, Avx512::load_int(tiles.bytes[kWeights][four]),
                                  word_everywhere(tiles.bytes[kInputs][row] + 4 * four));
      }
      Avx512::store_int(tiles.bytes[kSums][row], sum);
    }
  }

 private:
  struct alignas(64) Registers {
    char bytes[8][16][64];
    int64_t rows[8];
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

  // TDPBF16PS: the products of even inputs are added in one chain of fused multiply-adds, those of
  // odd inputs in another; the sum of both is added to the accumulator.
  [[gnu::noinline]] static void dot_bf16_rows(char (*sums)[64], const char (*inputs)[64],
                                              int64_t rows, const char (*weights)[64]) {
    for (int64_t row = 0; row < rows; ++row) {
      Avx512::F even = Avx512::zero();
      Avx512::F odd = Avx512::zero();
      for (int pair = 0; pair < 16; ++pair) {
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
