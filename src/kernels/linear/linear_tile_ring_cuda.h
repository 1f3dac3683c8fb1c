// What moves through a block of the linear kernel for many rows (linear_tiles_cuda.cu), and in
// which order. Device code; included by the kernel alone.
#pragma once

#include <cstdint>

#include "kernels/linear/linear_plan_cuda.h"
#include "kernels/linear/linear_ring_cuda.h"
#include "kernels/linear/ptx_cuda.h"
#include "kernels/linear/wgmma_cuda.h"

namespace forerun::cuda {

inline constexpr int kBlockTiles = 4;  // tiles of 32 outputs that a block works on at once

// A stage of the ring: the activations of its units, in boxes of kBoxInputs inputs of all rows,
// then the units of the weights, [unit][tile].
template <LinearFormat kFormat, int kRowCount, int kInputs>
struct TileStage {
  static constexpr LinearFormat kWeightFormat = kFormat;
  static constexpr int kRows = kRowCount;
  static constexpr int kBoxInputs = kInputs;  // 32 or 64
  static constexpr int kUnits = kFormat == LinearFormat::kInt4Group128 ? 1 : 2;
  static constexpr int kBoxes = kUnits * unit_inputs(kFormat) / kBoxInputs;
  static constexpr int kBoxBytes = kRows * kBoxInputs * 2;
  static constexpr int kWeightOffset = kBoxes * kBoxBytes;
  static constexpr int kBytes = kWeightOffset + kUnits * kBlockTiles * stage_bytes(kFormat);
  static_assert(kBytes % 512 == 0 && kBoxBytes % 1024 == 0);

  // Where the 16 inputs of a step are, of all steps of the stage's units in order.
  static constexpr int step_offset(int step) {
    constexpr int kBoxSteps = kBoxInputs / 16;
    return step / kBoxSteps * kBoxBytes + step % kBoxSteps * 32;
  }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The units that one warp of linear_kernel would multiply: `count`, `1 << input_warps_log2` apart.
struct Chain {
  int first, count;
  __device__ __forceinline__ Chain(const LinearKernelArgs& args, int rank, int input_warp) {
    const BlockUnits block(args, rank);
    const int input_warps = 1 << args.input_warps_log2;
    first = block.first + input_warp;
    count = (block.count - input_warp + input_warps - 1) >> args.input_warps_log2;
  }
};

// Where a warp is in a ring; who fills it and who empties it keep step.
template <int kStages, int kStageBytes>
struct TileRing {
  uint32_t data, full, empty;  // stage 0 and the barriers of all stages
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ uint32_t address() const { return data + stage * kStageBytes; }
  __device__ __forceinline__ uint32_t full_barrier() const { return full + stage * 8; }
  __device__ __forceinline__ uint32_t empty_barrier() const { return empty + stage * 8; }
  __device__ __forceinline__ void wait_full() const { barrier_wait(full_barrier(), parity); }
  __device__ __forceinline__ void wait_empty() const { barrier_wait(empty_barrier(), parity ^ 1); }
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Brings the stages of the tiles from `first_tile` and the rows from `first_row` on; all lanes of a
// warp, which copy a unit of a tile or a box of rows each: one lane alone takes longer to ask for
// them (a layer of 1,024 rows 620 us for 519).
template <class Stage, class Ring>
__device__ __forceinline__ void request_tile(const LinearKernelArgs& args, const CUtensorMap& map,
                                             Ring& ring, int tiles, int first_tile, int first_row,
                                             int lane) {
  constexpr LinearFormat kFormat = Stage::kWeightFormat;
  constexpr int kWeightCopies = Stage::kUnits * kBlockTiles;
  static_assert(kWeightCopies + Stage::kBoxes <= 32);
  const int block_tiles = min(kBlockTiles, tiles - first_tile);
  const bool weight = lane < kWeightCopies;
  const int part = weight ? lane : lane - kWeightCopies;
  const bool used = weight ? part % kBlockTiles < block_tiles : part < Stage::kBoxes;
  // Within a stage: which unit, from where and to where.
  const int unit = weight ? part / kBlockTiles : part * Stage::kBoxInputs / unit_inputs(kFormat);
  const int apart = 1 << args.input_warps_log2;
  const std::byte* const from =
      args.weight +
      (static_cast<int64_t>(first_tile + part % kBlockTiles) * args.units + unit * apart) *
          unit_bytes(kFormat);
  const int column =
      unit * apart * unit_inputs(kFormat) + part * Stage::kBoxInputs % unit_inputs(kFormat);
  const uint32_t target =
      weight ? Stage::kWeightOffset + part * stage_bytes(kFormat) : part * Stage::kBoxBytes;
  for (int rank = 0; rank < args.cluster_size; ++rank) {
    for (int input_warp = 0; input_warp < apart; ++input_warp) {
      const Chain chain(args, rank, input_warp);
      int first_unit = chain.first;
      for (int left = chain.count; left > 0; left -= Stage::kUnits) {
        ring.wait_empty();
        const uint32_t barrier = ring.full_barrier();
        if (lane == 0) {
          const int units = min(Stage::kUnits, left);
          const int boxes = (units * unit_inputs(kFormat) - 1) / Stage::kBoxInputs + 1;
          barrier_arrive_expecting(
              barrier, units * block_tiles * unit_bytes(kFormat) + boxes * Stage::kBoxBytes);
        }
        __syncwarp();
        if (used && unit < left) {
          if (weight) {
            bulk_copy(ring.address() + target,
                      from + static_cast<int64_t>(first_unit) * unit_bytes(kFormat),
                      unit_bytes(kFormat), barrier);
          } else {
            tensor_copy(ring.address() + target, map, first_unit * unit_inputs(kFormat) + column,
                        first_row, barrier);
          }
        }
        first_unit += Stage::kUnits * apart;
        ring.advance();
      }
    }
  }
}

#endif

}  // namespace forerun::cuda
