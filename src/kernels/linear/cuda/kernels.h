// The kernels of linear layers on a GPU, by range of rows. Internal: linear/cuda/launch.cu chooses
// among them; callers use linear_cuda().
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "forerun/status.h"
#include "kernels/linear/cuda/linear.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/linear/cuda/tile_plan.h"

namespace forerun::cuda {

struct LinearKernelArgs;  // linear/cuda/ring.h
enum class EpilogueKind : uint8_t;

// A variant of the kernel for 1 to 32 rows (linear/cuda/linear.cu).
struct LinearVariant {
  LinearFormat format;
  int n8_tiles;                // 1, 2 or 4
  EpilogueKind epilogue;       // int8: kPlain only; grouped formats: kRuntime only
  TileSchedule schedule;       // kManyWarps: int4 only
  bool few_registers = false;  // see LinearLaunch; kPlain only
};
using LinearKernel = void (*)(LinearKernelArgs);
LinearKernel linear_kernel_for(const LinearVariant& variant);
// Returns the kernel of a grouped format (linear/cuda/grouped.cu), which serves all epilogues.
LinearKernel grouped_kernel_for(const LinearVariant& variant);

// Each kernel below has a function that prepares it, which prepare_linear_cuda() calls, and a
// function that submits a launch. `args` are the arguments of linear_kernel.

// Sums of activations for formats with minima (linear/cuda/group_sums.h), into call.scratch, for
// calls that need them: of more than 8 rows.
Status prepare_group_sums();
Status launch_group_sums(const LinearPlan& plan, const LinearCall& call, cudaStream_t stream);

// For gate and up of int4 at 17 to 32 rows: the same clusters, blocks and order of summation as
// linear_kernel, but products by wgmma (linear/cuda/warpgroups.cu).
Status prepare_linear_warpgroups();
// Returns whether this kernel takes the call: gate and up with at least five tiles per block, and
// sums and stages that fit in registers and shared memory.
bool takes_warpgroups(const LinearPlan& plan, const LinearCall& call);
Status launch_linear_warpgroups(const LinearPlan& plan, const LinearCall& call,
                                const LinearKernelArgs& args, cudaStream_t stream);

// The kernel for many rows (prefill, large batches): tiles of 128 outputs x 128 rows of
// activations, with the same bits per row as linear_kernel (linear/cuda/tiles.cu). It does not read
// the fields of `args` that come from LinearLaunch.
Status prepare_linear_tiles();
Status launch_linear_tiles(const LinearPlan& plan, const LinearCall& call,
                           const LinearKernelArgs& args, cudaStream_t stream);

// The kernel with tiles of 256 outputs x up to 128 rows, for bf16 layers whose sums are one chain
// each: gate and up, and the LM head (linear/cuda/wide_tiles.cu). launch_linear_tiles() decides
// when to use it.
inline bool may_be_wide(const LinearCall& call) {
  return call.gated ||
         (call.output_f32 != nullptr && call.bias == nullptr && call.reduce == nullptr);
}
Status prepare_linear_wide_tiles();
// tiling.block_tiles must be kWideBlockTiles.
Status launch_linear_wide_tiles(const LinearPlan& plan, const LinearCall& call,
                                const LinearKernelArgs& args, const LinearTiling& tiling,
                                cudaStream_t stream);

}  // namespace forerun::cuda
