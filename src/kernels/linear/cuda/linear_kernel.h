// The kernel for few rows, as a template; linear/cuda/linear.cu explains it. Only files that
// instantiate it include this header.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/block.h"
#include "kernels/linear/cuda/kernels.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Returns the registers per thread. At 8 rows two blocks of consecutive layers share an SM with the
// small kernels between them. These kernels must fit beside both blocks; otherwise they wait for a
// block to end, and the next layer places two blocks on the SMs that become free first. 8 warps
// with 112 registers and 14 warps with 64 leave 8,192 registers of the SM. The kernel of layers
// with an all-reduce (kRuntime) has 72 registers for few and many warps: a block of attention has
// up to 36,864 and starts beside QKV's 12 warps while the layer before still runs. With 80
// registers it could not, and forwards of 70B over 4 GPUs would take 4% longer; with 64 they would
// take 2% longer, since the loop needs more. One GPU uses separate kernels for few and many warps:
// 72 registers for both would make 1B 3% slower. At 16 rows QKV's 12 warps have 80 registers, to
// leave room for a block of attention with 32,768. At 32 rows of many units a block has an SM to
// itself; of its nine warps three share a scheduler's 16,384 registers.
constexpr int registers(LinearFormat format, int n8_tiles, EpilogueKind epilogue,
                        TileSchedule schedule) {
  const bool many = schedule == TileSchedule::kManyWarps;
  if (n8_tiles == 4) return many ? 128 : 168;
  if (n8_tiles == 2) return many ? 80 : 112;
  if (schedule == TileSchedule::kMultiPass || format != LinearFormat::kInt4Group128) return 112;
  return epilogue == EpilogueKind::kRuntime ? 72 : many ? 64 : 112;
}

template <LinearFormat kFormat, int kN8Tiles, EpilogueKind kEpilogue, TileSchedule kSchedule>
__global__ void __maxnreg__(registers(kFormat, kN8Tiles, kEpilogue, kSchedule))
    linear_kernel(const __grid_constant__ LinearKernelArgs args) {
  using Block = LinearBlock<kFormat, kN8Tiles, kEpilogue, kSchedule>;
  launch_dependents();
  Block block(args, dynamic_shared_address(), static_cast<int>(cluster_index()));
  block.place_rings();
  if constexpr (Block::kHasProducerWarp) {
    if (block.warp == args.warps) return block.produce_inputs();
  }
  block.init_barriers();
  block.load_weights();
  block.load_inputs();
  if constexpr (Block::kSinglePass) {
    block.single_pass();
  } else {
    block.multi_pass();
  }
}

#else

// Below sm_90 there are no clusters and no bulk copies; linear_cuda() never launches this stub.
template <LinearFormat kFormat, int kN8Tiles, EpilogueKind kEpilogue, TileSchedule kSchedule>
__global__ void linear_kernel(const __grid_constant__ LinearKernelArgs) {}

#endif

}  // namespace forerun::cuda
