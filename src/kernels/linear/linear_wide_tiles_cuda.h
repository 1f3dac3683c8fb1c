// Tiles of 256 outputs x up to 128 rows, for bf16 layers whose sums are one chain each: gate and
// up, and the head. linear_tiles_cuda.cu chooses; not for callers.
#pragma once

#include <cuda_runtime_api.h>

#include "forerun/status.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/linear_ring_cuda.h"
#include "kernels/linear/linear_tile_plan_cuda.h"

namespace forerun::cuda {

// Whether the kernel makes what a layer ends in.
inline bool may_be_wide(const LinearCall& call) {
  return call.gated ||
         (call.output_f32 != nullptr && call.bias == nullptr && call.reduce == nullptr);
}

// As prepare_linear_tiles() and launch_linear_tiles(); `tiling` has kWideBlockTiles.
Status prepare_linear_wide_tiles();
Status launch_linear_wide_tiles(const LinearPlan& plan, const LinearCall& call,
                                const LinearKernelArgs& args, const LinearTiling& tiling,
                                cudaStream_t stream);

}  // namespace forerun::cuda
