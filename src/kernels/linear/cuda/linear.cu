// The linear kernel for few rows. Weights are the 16-row operand of mma, rows of activations are
// its 8 columns: one instruction shape serves every number of rows, and at 8 rows the tensor core
// has no idle lane.
//
// Floor: the weight's bytes over the memory's bandwidth. The design choices that bring a launch
// near it:
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
#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/block.h"
#include "kernels/linear/cuda/kernels.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Registers per thread. At 8 rows two blocks of consecutive layers share an SM with the small
// kernels between them. These kernels must fit beside both blocks; otherwise they wait for a block
// to end, and the next layer places two blocks on the SMs that become free first. 8 warps with 112
// registers and 14 warps with 64 leave 8,192 registers of the SM. The kernel of layers with an
// all-reduce (kRuntime) has 72 registers for few and many warps: a block of attention has up to
// 36,864 and starts beside QKV's 12 warps while the layer before still runs. With 80 registers it
// could not, and forwards of 70B over 4 GPUs would take 4% longer; with 64 they would take 2%
// longer, since the loop needs more. One GPU uses separate kernels for few and many warps: 72
// registers for both would make 1B 3% slower. At 16 rows QKV's 12 warps have 80 registers, to leave
// room for a block of attention with 32,768. At 32 rows of many units a block has an SM to itself;
// of its nine warps three share a scheduler's 16,384 registers.
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
      break;
  }
  return kernel_for<LinearFormat::kBf16>(variant);
}

}  // namespace forerun::cuda
