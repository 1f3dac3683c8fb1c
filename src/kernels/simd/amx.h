// Tile registers: AMX in bf16 and int8 (Sapphire Rapids).
//
// Instructions are written in assembly for two reasons. The numbers of registers come from
// templates. And g++ 12's _tile_loadconfig declares only 8 of the 64 bytes that it reads, so the
// compiler may move stores to the rest behind it, and the next tile instruction is then illegal.
#pragma once

#include <cstdint>

#include "kernels/simd/macros.h"

namespace forerun {
namespace simd {
namespace {

// Eight registers of up to 16 rows with 64 bytes each.
struct AmxTiles {
  // Sets the number of rows of each register and the bytes per row, up to 64. A configuration takes
  // 0.1 us.
  FORERUN_INLINE void configure(const int64_t (&rows)[8], const int64_t (&row_bytes)[8]) {
    Config config = {};
    config.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      config.row_bytes[tile] = static_cast<uint16_t>(row_bytes[tile]);
      config.rows[tile] = static_cast<uint8_t>(rows[tile]);
    }
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  template <int kTile>
  FORERUN_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  FORERUN_INLINE void load(const void* from, int64_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  FORERUN_INLINE void store(void* to, int64_t stride_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  // Adds products of bf16. Rows of kInputs are rows of the sums; row i of kWeights has elements
  // 2 * i and 2 * i + 1 of all columns.
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kInputs),
                 "i"(kWeights));
  }
  // Adds products of signed inputs by unsigned weights, four elements per row of kWeights.
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_int8() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kInputs), "i"(kWeights));
  }
  // Adds products of signed inputs by signed weights, four elements per row of kWeights.
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_signed() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kInputs), "i"(kWeights));
  }

 private:
  // The operand of LDTILECFG.
  struct alignas(64) Config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  static_assert(sizeof(Config) == 64);
};

}  // namespace
}  // namespace simd
}  // namespace forerun
