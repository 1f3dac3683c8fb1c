// Weights as the tensor core's 16-row operand, rows of activations as its 8 columns: one
// instruction shape for every row count, and at 8 rows no lane of the tensor core is wasted.
//
// Floor: the weight's bytes over the memory's bandwidth. What decides how near a launch comes:
//  - every warp streams its own units through its own ring in shared memory (bulk copies, one
//    barrier per stage): no producer warp, no barrier between warps in the main loop;
//  - the ring is filled before the previous kernel's end is awaited, and two blocks share an SM, so
//    that the memory keeps working across the boundary between kernels;
//  - 132 blocks, in clusters of at most 2, place themselves one per SM; larger clusters leave SMs
//    idle, on which the next layer would lie twice, and so are for what attention follows;
//  - a cluster of 2 halves the activations that a block reads through the L2: 64 KB for 128 at 8
//    rows and 8,192 inputs; they come at once where they fit, otherwise in segments;
//  - partial sums are pushed into the owner's shared memory by asynchronous stores that count down
//    its barrier (no fence, no barrier of the cluster) and added there in the order of the blocks;
//  - a nibble, or a byte of two, is a subnormal f16 where it lies, so that int4 takes one
//    instruction a pair of weights and another to subtract the zero point, exactly; the scale
//    multiplies the f32 sum of its 128 inputs, not the weights; a unit's instructions count as its
//    bytes do (int8 likewise, by groups of 64 inputs);
//  - a norm in front costs no launch: its weight has multiplied the activations where they were
//    made, the inverse root mean square multiplies the finished sums (rms_norm/cuda/rms_norm.h);
//  - a multiprocessor's instruction cache does not hold the kernels of a layer, and fetching them
//    again costs microseconds: loops that run once or twice are not unrolled, and where sums over a
//    group would make a third kernel, beside the plain one and the gated one, one serves all.
// docs/kernels/linear.md has the measurements and what decides them; launches:
// linear/cuda/launch.cu.
#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/block.h"
#include "kernels/linear/cuda/kernels.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Registers per thread. At 8 rows two blocks of consecutive layers share an SM with the small
// kernels between them, which must find room beside both: else they wait for one to leave, and the
// layer after them places two blocks on the SMs that become free first. 8 warps of 112 and 14 of 64
// leave 8,192. The one kernel of a group (kRuntime) has 72 for few warps and many: a block of
// attention has up to 36,864 and starts beside QKV's 12 warps while the layer before still runs;
// with 80 it does not, and forwards of 70B over 4 GPUs take 4% longer (with 64, 2%: what the loop
// lacks). One GPU has a kernel for each: with 72 for both 1B takes 3% longer. At 16 rows QKV's 12
// warps have 80, for a block of attention that has 32,768. At 32 rows of many units a block has an
// SM to itself, and of nine warps three share a scheduler's 16,384.
constexpr int registers(LinearFormat format, int row_blocks, LinearEpilogue epilogue,
                        TileSchedule schedule) {
  const bool many = schedule == TileSchedule::kManyWarps;
  if (row_blocks == 4) return many ? 128 : 168;
  if (row_blocks == 2) return many ? 80 : 112;
  if (schedule == TileSchedule::kMultiPass || format != LinearFormat::kInt4Group128) return 112;
  return epilogue == LinearEpilogue::kRuntime ? 72 : many ? 64 : 112;
}

template <LinearFormat kFormat, int kRowBlocks, LinearEpilogue kEpilogue, TileSchedule kSchedule>
__global__ void __maxnreg__(registers(kFormat, kRowBlocks, kEpilogue, kSchedule))
    linear_kernel(const __grid_constant__ LinearKernelArgs args) {
  using Block = LinearBlock<kFormat, kRowBlocks, kEpilogue, kSchedule>;
  launch_dependents();
  Block block(args, dynamic_shared_address(), static_cast<int>(cluster_index()));
  block.place_rings();
  if constexpr (Block::kFeedsApart) {
    if (block.warp == args.warps) return block.feed_inputs();
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

// Below sm_90 there is neither a cluster nor a bulk copy; linear_cuda() never launches this there.
template <LinearFormat kFormat, int kRowBlocks, LinearEpilogue kEpilogue, TileSchedule kSchedule>
__global__ void linear_kernel(const __grid_constant__ LinearKernelArgs) {}

#endif

template <LinearFormat kFormat, int kRowBlocks, TileSchedule kSchedule>
LinearKernel kernel_for(const LinearVariant& variant) {
  if constexpr (kFormat == LinearFormat::kInt8Group64) {  // of a head
    return linear_kernel<kFormat, kRowBlocks, LinearEpilogue::kPlain, kSchedule>;
  } else {
    return variant.epilogue == LinearEpilogue::kPlain
               ? linear_kernel<kFormat, kRowBlocks, LinearEpilogue::kPlain, kSchedule>
           : variant.epilogue == LinearEpilogue::kGated
               ? linear_kernel<kFormat, kRowBlocks, LinearEpilogue::kGated, kSchedule>
               : linear_kernel<kFormat, kRowBlocks, LinearEpilogue::kRuntime, kSchedule>;
  }
}
template <LinearFormat kFormat, TileSchedule kSchedule>
LinearKernel kernel_for(const LinearVariant& variant) {
  return variant.row_blocks == 1   ? kernel_for<kFormat, 1, kSchedule>(variant)
         : variant.row_blocks == 2 ? kernel_for<kFormat, 2, kSchedule>(variant)
                                   : kernel_for<kFormat, 4, kSchedule>(variant);
}
// Many warps have a kernel of their own only where they must have fewer registers than few. Which
// schedules int8 and bf16 have no use for: linear/cuda/plan.cc.
template <LinearFormat kFormat>
LinearKernel kernel_for(const LinearVariant& variant) {
  if constexpr (kFormat == LinearFormat::kInt4Group128) {
    if (variant.schedule == TileSchedule::kManyWarps && variant.row_blocks == 4) {
      return kernel_for<kFormat, 4, TileSchedule::kManyWarps>(variant);
    }
    if (variant.few_registers) {
      return linear_kernel<kFormat, 2, LinearEpilogue::kPlain, TileSchedule::kManyWarps>;
    }
    if (variant.schedule == TileSchedule::kManyWarps && variant.row_blocks == 1 &&
        variant.epilogue != LinearEpilogue::kRuntime) {
      return variant.epilogue == LinearEpilogue::kGated
                 ? linear_kernel<kFormat, 1, LinearEpilogue::kGated, TileSchedule::kManyWarps>
                 : linear_kernel<kFormat, 1, LinearEpilogue::kPlain, TileSchedule::kManyWarps>;
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
      break;
  }
  return kernel_for<LinearFormat::kBf16>(variant);
}

}  // namespace forerun::cuda
