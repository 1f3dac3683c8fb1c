// The linear kernels for processors with AMX. The file is compiled with flags for AMX;
// linear/cpu/tiles.inc says what must not be used in it.
//
// Instructions are written in assembly for two reasons. The numbers of registers come from
// templates. And g++ 12's _tile_loadconfig declares only 8 of the 64 bytes that it reads, so the
// compiler may move stores to the rest behind it, and the next tile instruction is then illegal.
//
// 2048 x 8192 bf16, two Emerald Rapids cores, two layers in turn, ms at 1 / 4 / 8 / 16 / 512 rows:
// AVX512_BF16 1.24 / 1.85 / 3.17 / 6.32 / 212, tiles 1.25 / 1.20 / 1.24 / 1.33 / 26.6.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/cpu/macros.h"

namespace forerun {
namespace amx {
namespace {
#include "kernels/linear/cpu/vec_avx512.inc"
//
#include "kernels/linear/cpu/tiles.inc"

// LDTILECFG's operand.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

struct Tiles {
  // Registers 0, 1 and 4 get `first` rows; 2, 3 and 5 get `second`: sums and inputs of two blocks
  // of rows. Registers 6 and 7, for weights, have all 16 rows. The configuration is loaded for
  // every sweep, since the thread may belong to a caller that uses its tiles in another way. It
  // takes 0.1 us, and a sweep takes 10 to 100 us.
  static void configure(int64_t first, int64_t second) {
    TileConfig config = {};
    config.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      config.row_bytes[tile] = 64;
      const bool is_second = tile == 2 || tile == 3 || tile == 5;
      config.rows[tile] = static_cast<uint8_t>(tile >= 6 ? 16 : is_second ? second : first);
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
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kInputs),
                 "i"(kWeights));
  }
  // Multiplies signed inputs by unsigned weights.
  template <int kSums, int kInputs, int kWeights>
  FORERUN_INLINE void dot_int8() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kInputs), "i"(kWeights));
  }
};

constexpr int64_t kTileAhead = 4096;  // prefetch distance in bytes of a column's weights

#include "kernels/linear/cpu/tile_dots.inc"
}  // namespace
}  // namespace amx

constinit const LinearKernels kLinearAmx = amx::make_tile_kernels("amx");

}  // namespace forerun
