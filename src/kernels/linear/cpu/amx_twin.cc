// The linear kernels of linear/cpu/amx.cc with tile instructions emulated by AVX-512 with VNNI:
// slow, but with the same bits on processors without AMX. The file is compiled with flags for
// AVX-512; linear/cpu/tiles.inc says what must not be used in it.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/cpu/macros.h"

namespace forerun {
namespace amx_twin {
namespace {
#include "kernels/linear/cpu/vec_avx512.inc"
//
#include "kernels/linear/cpu/tiles.inc"

struct alignas(64) TileRegisters {
  char bytes[8][16][64];
  int64_t rows[8];
};

TileRegisters& registers() {
  thread_local TileRegisters tiles;
  return tiles;
}

FORERUN_INLINE Vec::F even_half(Vec::I pairs) { return Vec::as_float(Vec::shift_left<16>(pairs)); }
FORERUN_INLINE Vec::F odd_half(Vec::I pairs) {
  return Vec::as_float(Vec::and_int(pairs, Vec::set1_int(static_cast<int32_t>(0xffff0000u))));
}

FORERUN_INLINE Vec::I word_everywhere(const char* at) {
  int32_t word = 0;
  __builtin_memcpy(&word, at, 4);
  return Vec::set1_int(word);
}

// TDPBF16PS: the products of even inputs are added in one chain of fused multiply-adds, those of
// odd inputs in another; the sum of both is added to the accumulator.
[[gnu::noinline]] static void dot_bf16_rows(char (*sums)[64], const char (*inputs)[64],
                                            int64_t rows, const char (*weights)[64]) {
  for (int64_t row = 0; row < rows; ++row) {
    Vec::F even = Vec::zero();
    Vec::F odd = Vec::zero();
    for (int pair = 0; pair < 16; ++pair) {
      const Vec::I x = word_everywhere(inputs[row] + 4 * pair);
      const Vec::I w = Vec::load_int(weights[pair]);
      even = Vec::fma(even_half(x), even_half(w), even);
      odd = Vec::fma(odd_half(x), odd_half(w), odd);
    }
    float* const to = reinterpret_cast<float*>(sums[row]);
    Vec::store(to, Vec::add(Vec::load(to), Vec::add(even, odd)));
  }
}

struct Tiles {
  static void configure(int64_t first, int64_t second) {
    for (int tile = 0; tile < 8; ++tile) {
      const bool is_second = tile == 2 || tile == 3 || tile == 5;
      registers().rows[tile] = tile >= 6 ? 16 : is_second ? second : first;
    }
  }
  template <int kTile>
  FORERUN_INLINE void zero() {
    TileRegisters& tiles = registers();
    for (auto& row : tiles.bytes[kTile]) Vec::store_int(row, Vec::zero_int());
  }
  template <int kTile>
  FORERUN_INLINE void load(const void* from, int64_t stride_bytes) {
    TileRegisters& tiles = registers();
    const char* at = static_cast<const char*>(from);
    for (int64_t row = 0; row < tiles.rows[kTile]; ++row, at += stride_bytes) {
      Vec::store_int(tiles.bytes[kTile][row], Vec::load_int(at));
    }
  }
  template <int kTile>
  FORERUN_INLINE void store(void* to, int64_t stride_bytes) {
    const TileRegisters& tiles = registers();
    char* at = static_cast<char*>(to);
    for (int64_t row = 0; row < tiles.rows[kTile]; ++row, at += stride_bytes) {
      Vec::store_int(at, Vec::load_int(tiles.bytes[kTile][row]));
    }
  }
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_bf16() {
    TileRegisters& tiles = registers();
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
    TileRegisters& tiles = registers();
    for (int64_t row = 0; row < tiles.rows[kInputs]; ++row) {
      Vec::I sum = Vec::load_int(tiles.bytes[kSums][row]);
      for (int four = 0; four < 16; ++four) {
        sum = _mm512_dpbusd_epi32(sum, Vec::load_int(tiles.bytes[kWeights][four]),
                                  word_everywhere(tiles.bytes[kInputs][row] + 4 * four));
      }
      Vec::store_int(tiles.bytes[kSums][row], sum);
    }
  }
};

constexpr int64_t kTileAhead = 4096;

#include "kernels/linear/cpu/tile_dots.inc"
}  // namespace
}  // namespace amx_twin

constinit const LinearKernels kLinearAmxTwin = amx_twin::make_tile_kernels("amx");

}  // namespace forerun
