// The kernels of linear layers on a GPU, one for every range of rows, for the launches that choose
// among them (linear/cuda/launch.cu). Not for callers: they call linear_cuda().
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "forerun/status.h"
#include "kernels/linear/cuda/linear.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/linear/cuda/tile_plan.h"

namespace forerun::cuda {

struct LinearKernelArgs;  // linear/cuda/ring.h
enum class LinearEpilogue : uint8_t;

// 1 to 32 rows (linear/cuda/linear.cu).
struct LinearVariant {
  LinearFormat format;
  int row_blocks;              // 1, 2 or 4
  LinearEpilogue epilogue;     // of int8 kPlain
  TileSchedule schedule;       // kManyWarps: of int4 only
  bool few_registers = false;  // LinearLaunch's; kPlain
};
using LinearKernel = void (*)(LinearKernelArgs);
LinearKernel linear_kernel_for(const LinearVariant& variant);

// Each kernel below has a function that prepares it, which prepare_linear_cuda() calls, and one
// that submits a launch. `args`: what linear_kernel would get.

// Gate and up of int4 at 17 to 32 rows: the clusters, blocks and order of summation of
// linear_kernel, products by wgmma (linear/cuda/warpgroups.cu).
Status prepare_linear_warpgroups();
// Whether the call is the kernel's: gate and up on one GPU, of five tiles a block and more.
bool takes_warpgroups(const LinearPlan& plan, const LinearCall& call);
Status launch_linear_warpgroups(const LinearPlan& plan, const LinearCall& call,
                                const LinearKernelArgs& args, cudaStream_t stream);

// Many rows (prefill, batches): tiles of 128 outputs x 128 rows of activations, the same bits a
// row as linear_kernel (linear/cuda/tiles.cu). The launch's fields of `args` are not read.
Status prepare_linear_tiles();
Status launch_linear_tiles(const LinearPlan& plan, const LinearCall& call,
                           const LinearKernelArgs& args, cudaStream_t stream);

// Tiles of 256 outputs x up to 128 rows, for bf16 layers whose sums are one chain each: gate and
// up, and the head (linear/cuda/wide_tiles.cu). launch_linear_tiles() chooses.
inline bool may_be_wide(const LinearCall& call) {
  return call.gated ||
         (call.output_f32 != nullptr && call.bias == nullptr && call.reduce == nullptr);
}
Status prepare_linear_wide_tiles();
// `tiling` has kWideBlockTiles.
Status launch_linear_wide_tiles(const LinearPlan& plan, const LinearCall& call,
                                const LinearKernelArgs& args, const LinearTiling& tiling,
                                cudaStream_t stream);

}  // namespace forerun::cuda
