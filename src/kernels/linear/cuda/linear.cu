// The linear kernel for few rows. Weights are the 16-row operand of mma, rows of activations are
// its 8 columns: one instruction shape serves every number of rows, and at 8 rows the tensor core
// has no idle lane.
//
// The lower bound of its time is the weight's bytes over the memory's bandwidth. These design
// choices bring a launch near it:
//  - every warp streams its own units through its own ring in shared memory (bulk copies, one
//    barrier per stage): no producer warp for weights, no barrier between warps in the main loop;
//  - the ring is filled before the kernel waits for the previous kernel's end, and two blocks share
//    an SM, so the memory stays busy across the boundary between kernels;
//  - 132 blocks in clusters of at most 2 are placed one per SM. Larger clusters leave SMs idle, on
//    which the next linear layer would place two blocks, so they are used only before attention;
//  - a cluster of 2 halves the activations that a block reads through the L2: 64 KB instead of 128
//    at 8 rows and 8,192 inputs. They are loaded at once if they fit, otherwise in segments;
//  - partial sums are pushed into the owner's shared memory by asynchronous stores that complete on
//    its barrier (no fence, no cluster barrier) and added there in the order of the blocks;
//  - a nibble (or a byte with two nibbles) is a subnormal f16 without conversion, so int4 takes one
//    instruction per pair of weights and another to subtract the zero point, both exact. The scale
//    multiplies the f32 sum of 128 inputs, not the weights. The time of a unit's instructions
//    matters as much as its bytes. Int8 works in the same way, by groups of 64 inputs;
//  - a norm before the layer costs no launch: its weight has multiplied the activations where they
//    were computed, and the inverse RMS multiplies the finished sums (rms_norm/cuda/rms_norm.h);
//  - the instruction cache of an SM does not hold all kernels of a layer, and loading them again
//    costs microseconds. So loops that run once or twice are not unrolled, and where all-reduces
//    would add a third kernel to the plain and the gated kernel, one kernel serves all (kRuntime).
// docs/kernels/linear.md has measurements and explains them; linear/cuda/launch.cu launches the
// kernel.
#include "kernels/linear/cuda/kernels.h"
#include "kernels/linear/cuda/linear_kernel.h"

namespace forerun::cuda {
namespace {

template <LinearFormat kFormat, int kN8Tiles, TileSchedule kSchedule>
LinearKernel kernel_for(const LinearVariant& variant) {
  if constexpr (kFormat == LinearFormat::kInt8Group64) {  // int8: only the LM head
    return linear_kernel<kFormat, kN8Tiles, EpilogueKind::kPlain, kSchedule>;
  } else {
    return variant.epilogue == EpilogueKind::kPlain
               ? linear_kernel<kFormat, kN8Tiles, EpilogueKind::kPlain, kSchedule>
           : variant.epilogue == EpilogueKind::kGated
               ? linear_kernel<kFormat, kN8Tiles, EpilogueKind::kGated, kSchedule>
               : linear_kernel<kFormat, kN8Tiles, EpilogueKind::kRuntime, kSchedule>;
  }
}
template <LinearFormat kFormat, TileSchedule kSchedule>
LinearKernel kernel_for(const LinearVariant& variant) {
  return variant.n8_tiles == 1   ? kernel_for<kFormat, 1, kSchedule>(variant)
         : variant.n8_tiles == 2 ? kernel_for<kFormat, 2, kSchedule>(variant)
                                 : kernel_for<kFormat, 4, kSchedule>(variant);
}
// kManyWarps has a separate kernel only if it needs fewer registers than kSinglePass.
// linear/cuda/plan.cc says which schedules int8 and bf16 use.
template <LinearFormat kFormat>
LinearKernel kernel_for(const LinearVariant& variant) {
  if constexpr (kFormat == LinearFormat::kInt4Group128) {
    if (variant.schedule == TileSchedule::kManyWarps && variant.n8_tiles == 4) {
      return kernel_for<kFormat, 4, TileSchedule::kManyWarps>(variant);
    }
    if (variant.few_registers) {
      return linear_kernel<kFormat, 2, EpilogueKind::kPlain, TileSchedule::kManyWarps>;
    }
    if (variant.schedule == TileSchedule::kManyWarps && variant.n8_tiles == 1 &&
        variant.epilogue != EpilogueKind::kRuntime) {
      return variant.epilogue == EpilogueKind::kGated
                 ? linear_kernel<kFormat, 1, EpilogueKind::kGated, TileSchedule::kManyWarps>
                 : linear_kernel<kFormat, 1, EpilogueKind::kPlain, TileSchedule::kManyWarps>;
    }
  }
  return variant.schedule == TileSchedule::kMultiPass
             ? kernel_for<kFormat, TileSchedule::kMultiPass>(variant)
             : kernel_for<kFormat, TileSchedule::kSinglePass>(variant);
}

}  // namespace

LinearKernel linear_kernel_for(const LinearVariant& variant) {
  switch (variant.format) {
    case LinearFormat::kInt4Group128:
      return kernel_for<LinearFormat::kInt4Group128>(variant);
    case LinearFormat::kInt8Group64:
      return kernel_for<LinearFormat::kInt8Group64>(variant);
    case LinearFormat::kBf16:
      return kernel_for<LinearFormat::kBf16>(variant);
    default:
      return grouped_kernel_for(variant);
  }
}

}  // namespace forerun::cuda
