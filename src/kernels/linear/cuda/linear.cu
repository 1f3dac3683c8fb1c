// Weights as the tensor core's 16-row operand, rows of activations as its 8 columns: one
// instruction shape for every row count, and at 8 rows no lane of the tensor core is wasted.
//
// Floor: the weight's bytes over the memory's bandwidth. What decides how near a launch comes:
//  - every warp streams its own units through its own ring in shared memory (bulk copies, one
//    barrier a stage): no producer warp, no barrier between warps in the main loop;
//  - the ring is filled before the previous kernel's end is awaited, and two blocks share an SM, so
//    that the memory keeps working across the boundary between kernels;
//  - 132 blocks, in clusters of at most 2, place themselves one an SM; larger clusters leave SMs
//    idle, on which the next layer would lie twice, and so are for what attention follows;
//  - a cluster of 2 halves the activations that a block reads through the L2: 64 KB for 128 at 8
//    rows and 8,192 inputs; they come at once where they fit, otherwise in segments;
//  - partial sums are pushed into the owner's shared memory by asynchronous stores that count down
//    its barrier (no fence, no barrier of the cluster) and added there in the order of the blocks;
//  - a nibble, or a byte of two, is a subnormal f16 where it lies, so that int4 takes one
//    instruction a pair of weights and another to subtract the zero point, exactly; the scale
//    multiplies the f32 sum of its 128 inputs, not the weights; a unit's instructions count as its
//    bytes do;
//  - a norm in front costs no launch: its weight has multiplied the activations where they were
//    made, the inverse root mean square multiplies the finished sums (rms_norm/cuda/rms_norm.h);
//  - a multiprocessor's instruction cache does not hold the kernels of a layer, and fetching them
//    again costs microseconds: loops that run once or twice are not unrolled, and where sums over a
//    group would make a third kernel, beside the plain one and the gated one, one serves all.
// docs/kernels/linear.md has the measurements and what decides them; launches:
// linear/cuda/launch.cu.
#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/kernels.h"
#include "kernels/linear/cuda/norm.h"
#include "kernels/linear/cuda/output.h"
#include "kernels/linear/cuda/ring.h"
#include "kernels/linear/cuda/unit.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Registers a thread. At 8 rows two blocks of consecutive layers share an SM with the small kernels
// between them, which must find room beside both: else they wait for one to leave, and the layer
// after them places two blocks on the SMs that become free first. 8 warps of 112 and 14 of 64 leave
// 8,192. The one kernel of a group (kRuntime) has 72 for few warps and many: a block of attention
// has up to 36,864 and starts beside QKV's 12 warps while the layer before still runs; with 80 it
// does not, and forwards of 70B over 4 GPUs take 4% longer (with 64, 2%: what the loop lacks). One
// GPU has a kernel for each: with 72 for both 1B takes 3% longer. At 32 rows of many units a block
// has an SM to itself.
constexpr int registers(LinearFormat format, int row_blocks, LinearEpilogue epilogue,
                        TileSchedule schedule) {
  const bool many = schedule == TileSchedule::kManyWarps;
  if (row_blocks == 4) return many ? 128 : 224;
  if (row_blocks == 2 || schedule == TileSchedule::kMultiPass || format == LinearFormat::kBf16) {
    return 112;
  }
  return epilogue == LinearEpilogue::kRuntime ? 72 : many ? 64 : 112;
}

template <LinearFormat kFormat, int kRowBlocks, LinearEpilogue kEpilogue, TileSchedule kSchedule>
__global__ void __maxnreg__(registers(kFormat, kRowBlocks, kEpilogue, kSchedule))
    linear_kernel(const __grid_constant__ LinearKernelArgs args) {
  constexpr bool kSlicesInOneWarp = kSchedule == TileSchedule::kSlicesInOneWarp;
  constexpr bool kSinglePass =
      kSchedule == TileSchedule::kSinglePass || kSchedule == TileSchedule::kManyWarps;
  constexpr int kUnitBytes = unit_bytes(kFormat);
  constexpr int kStageBytes = stage_bytes(kFormat);
  constexpr int kUnitInputs = unit_inputs(kFormat);
  extern __shared__ __align__(128) std::byte shared[];
  const uint32_t base = shared_address(shared);

  launch_dependents();
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int rank = static_cast<int>(cluster_rank());
  const int cluster = static_cast<int>(cluster_index());
  const int input_warps = 1 << args.input_warps_log2;
  const int tile_warps = args.tile_warps;
  const int input_warp = warp & (input_warps - 1);
  const int tile_warp = warp >> args.input_warps_log2;
  const int tile_begin = cluster * args.cluster_tiles + min(cluster, args.larger_clusters);
  const int tile_end = tile_begin + args.cluster_tiles + (cluster < args.larger_clusters ? 1 : 0);
  const BlockUnits block(args, rank);

  // The ring fills while the previous kernel still runs.
  const int warp_tiles = kSinglePass
                             ? tile_begin + tile_warp < tile_end
                             : (tile_end - tile_begin - tile_warp + tile_warps - 1) / tile_warps;
  UnitRing<kUnitBytes, kStageBytes, kSinglePass> ring;
  ring.next = args.weight + (static_cast<int64_t>(tile_begin + tile_warp) * args.units +
                             block.first + input_warp) *
                                kUnitBytes;
  ring.policy = evict_first_policy();
  // The warps that share a tile take its units in turn, so that they want the same activations.
  ring.tile_units = (block.count - input_warp + input_warps - 1) >> args.input_warps_log2;
  ring.left_in_tile = ring.tile_units;
  ring.tile_skip = tile_warps * args.units - ring.tile_units * input_warps;
  ring.to_request = warp_tiles * ring.tile_units;
  ring.to_use = ring.to_request;
  ring.data = base + args.ring_offset + warp * args.stages * kStageBytes;
  ring.data_end = ring.data + args.stages * kStageBytes;
  ring.barrier = base + ring_barrier_offset(kRowBlocks) + warp * args.stages * 8;
  InputRing<kRowBlocks, kSinglePass> inputs;
  inputs.data = base + kBarrierBytes;
  inputs.full = base;
  inputs.empty = inputs.full + kInputSegments * 8;
  const uint32_t receive_barriers = inputs.empty + kInputSegments * 8;  // one a buffer
  RowScales scales;
  scales.ready = receive_barriers + 16;
  scales.scales = scales.ready + 8;
  if (lane == 0) {
#pragma unroll 1
    for (int stage = 0; stage < args.stages; ++stage) {
      barrier_init(ring.barrier + stage * 8, 1);
    }
    if (warp == 0) {
      for (int i = 0; i < 2; ++i) barrier_init(receive_barriers + i * 8, 1);
      barrier_init(scales.ready, args.warps);
      for (int i = 0; i < kInputSegments; ++i) {
        barrier_init(inputs.full + i * 8, 1);
        barrier_init(inputs.empty + i * 8, args.warps);
      }
    }
    barrier_init_fence();
  }
  __syncwarp();  // the lane that asks for copies is any
#pragma unroll 1
  for (int stage = 0; stage < args.stages; ++stage) {
    ring.request(args, ring.data + stage * kStageBytes, ring.barrier + stage * 8);
  }
  __syncthreads();
  cluster_arrive_relaxed();  // matched below: no peer is written to before it has started

  const int first_row = blockIdx.y * 8 * kRowBlocks;
  const int rows = min(8 * kRowBlocks, args.rows - first_row);
  const int passes = kSinglePass ? 1 : (tile_end - tile_begin + tile_warps - 1) / tile_warps;
  prefetch_next_norm(args, tile_begin, tile_end);
  const bool inputs_stay = args.segments == args.input_buffers;
  inputs.block_bytes = block.count * kUnitInputs * 2;
  inputs.block_inputs = args.input + static_cast<int64_t>(block.first) * kUnitInputs;
  inputs.first_row = first_row;
  inputs.rows = rows;
  inputs.left = passes == 0 ? 0 : args.segments * (inputs_stay ? 1 : passes);
  // With registers to spare, what the last step reads is asked for before the main loop. A thread
  // has one item at most.
  constexpr bool kLoadsEarly = kSchedule == TileSchedule::kSinglePass && kRowBlocks == 1 &&
                               kEpilogue != LinearEpilogue::kRuntime;
  const OutputItems<kRowBlocks> early_items(args, tile_begin, tile_end - tile_begin, first_row,
                                            rank);
  OutputItem early = {};
  if constexpr (kLoadsEarly) {
    early = early_items.at(args, static_cast<int>(threadIdx.x));
    if (ends_plain<kEpilogue>(args)) early.load_weights(args);
  }
  const bool chooses = kEpilogue != LinearEpilogue::kGated && args.row_index != nullptr;
  if constexpr (kRowBlocks == 1) {
    auto first_inputs = inputs.prepare(args, warp, lane);
    RowScales::Asked squares = scales.prepare(args, first_row, rows, warp, lane);
    cluster_wait();
    wait_for_previous_kernel();
    if (chooses) {
      inputs.choose(args, first_inputs);
      scales.choose(args, first_row, squares);
    }
    scales.ask(squares);
    inputs.request_first(args, first_inputs);
    if constexpr (kLoadsEarly) {
      if (ends_plain<kEpilogue>(args)) early.load_residual(args);
    }
    scales.find(args, rows, lane, squares);
  } else {
    wait_for_previous_kernel();
#pragma unroll 1
    for (int i = 0; i < args.input_buffers && inputs.left > 0; ++i) {
      inputs.request(args, warp, args.warps, lane);
    }
    scales.find(args, first_row, rows, warp, lane);
  }

  // A lane's part in loading activations: row lane % 8 of each block of 8, or the last where there
  // are fewer, 8 of every 32 inputs.
  const int row_to_load = kRowBlocks == 1 ? min(lane & 7, args.input_rows - 1) : lane & 7;
  const uint32_t input_lane = inputs.data + input_warp * (kUnitInputs * 2) +
                              row_to_load * args.input_stride_bytes + (lane >> 3) * 16;
  const int input_step = (kUnitInputs * 2) << args.input_warps_log2;
  const int row_block_bytes = 8 * args.input_stride_bytes;
  PartialSums sums;
  sums.rank = rank;
  uint32_t passes_done = 0;
  int input_buffer = 0;  // and whether it has been filled an even number of times before
  uint32_t input_parity = 0;
  int to_recycle = -1;  // the buffer that warp 0 asks to be filled next
  uint32_t recycle_parity = 0;
  Unit<kFormat> weights;
  if constexpr (Unit<kFormat>::kAhead) weights.take(args, ring, lane);
  if constexpr (kRowBlocks > 1) cluster_wait();
  if constexpr (kSinglePass) {
    sums.buffer = base + args.receive_offset;
    sums.barrier = receive_barriers;
    const int tiles = tile_end - tile_begin;
    if (threadIdx.x == 0) {
      barrier_arrive_expecting(sums.barrier, sums.bytes(args, tiles * kRowBlocks));
    }
    float acc[2][kRowBlocks][4] = {};
    barrier_wait(inputs.full, 0);
    uint32_t input = input_lane;
#pragma unroll 1
    for (int unit = warp_tiles * ring.tile_units; unit > 0; --unit, input += input_step) {
      weights.template multiply<kRowBlocks>(args, ring, lane, input, row_block_bytes, acc);
    }
    weights.finish(acc);
    // What follows is found again: it would take registers all through the loop.
    const int thread = static_cast<int>(kLoadsEarly ? threadIdx.x : opaque(threadIdx.x));
    const int owner = static_cast<int>(cluster_rank());
    const int tile = thread / 32 >> args.input_warps_log2;
    sums.rank = owner;
    if (tile < tiles) {
      const int part_bytes = args.stages * kStageBytes;
      send_sums<kRowBlocks, true>(
          args, sums, acc, base + args.ring_offset + (tile << args.input_warps_log2) * part_bytes,
          part_bytes, tile, thread / 32 & (input_warps - 1), input_warps, thread % 32);
    }
    const OutputItems<kRowBlocks> items(args, tile_begin, tiles, first_row, owner);
    if constexpr (kLoadsEarly) {
      store_item<kEpilogue>(args, sums, 0, scales, items, items.first(), early);
    } else {
      store_sums<kEpilogue>(args, sums, 0, scales, items);
    }
    if (ends_in_sum<kEpilogue>(args)) store_group_sums(args, items);
  } else {
    for (int pass = tile_begin; pass < tile_end; pass += tile_warps) {
      const int tiles = min(tile_warps, tile_end - pass);
      sums.buffer = base + args.receive_offset + (passes_done & 1) * args.receive_buffer_bytes;
      sums.barrier = receive_barriers + (passes_done & 1) * 8;
      if (threadIdx.x == 0) {
        barrier_arrive_expecting(sums.barrier, sums.bytes(args, tiles * kRowBlocks));
      }
      float acc[2][kRowBlocks][4] = {};
      float other[2][kRowBlocks][4] = {};
      int units_left = tile_warp < tiles ? ring.tile_units : 0;
      for (int segment = 0; segment < args.segments; ++segment) {
        barrier_wait(inputs.full + input_buffer * 8, input_parity);
        uint32_t input =
            input_lane + input_buffer * inputs.buffer_rows(args) * args.input_stride_bytes;
        const int units = min(units_left, args.segment_units);
        units_left -= units;
        for (int unit = 0; unit < units; ++unit, input += input_step) {
          weights.template multiply<kRowBlocks>(args, ring, lane, input, row_block_bytes, acc);
          if (kSlicesInOneWarp && ++unit < units) {
            input += input_step;
            weights.template multiply<kRowBlocks>(args, ring, lane, input, row_block_bytes, other);
          }
        }
        if (inputs_stay) {
          if (++input_buffer == args.segments) input_buffer = 0;
          continue;
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(inputs.empty + input_buffer * 8);
        if (warp == 0 && inputs.left > 0) {
          // With more than two buffers, the segment before this one: the slowest warp has had time
          // to finish it.
          if (args.input_buffers == 2) {
            to_recycle = input_buffer;
            recycle_parity = input_parity;
          }
          if (to_recycle >= 0) {
            barrier_wait(inputs.empty + to_recycle * 8, recycle_parity);
            inputs.request(args, 0, 1, lane);
          }
          to_recycle = input_buffer;
          recycle_parity = input_parity;
        }
        if (++input_buffer == args.input_buffers) {
          input_buffer = 0;
          input_parity ^= 1;
        }
      }
      weights.finish(acc);
      if constexpr (kSlicesInOneWarp) {
        weights.finish(other);
        add(acc, other);
      }
      if (tile_warp < tiles) {
        constexpr int kPartBytes = kRowBlocks * 512;
        send_sums<kRowBlocks, false>(
            args, sums, acc, base + args.reduce_offset + tile_warp * input_warps * kPartBytes,
            kPartBytes, tile_warp, input_warp, input_warps, lane);
      }
      const OutputItems<kRowBlocks> items(args, pass, tiles, first_row, rank);
      store_sums<kEpilogue>(args, sums, passes_done >> 1 & 1, scales, items);
      // Peers that are a pass ahead write to the other buffer. None is two ahead: it would have had
      // to receive what every warp here sends a pass later, after reading this one (plan_linear()
      // sees to it that every block owns some of that).
      ++passes_done;
    }
    if (ends_in_sum<kEpilogue>(args)) {
      store_group_sums(
          args, OutputItems<kRowBlocks>(args, tile_begin, tile_end - tile_begin, first_row, rank));
    }
  }
}

#else

// Below sm_90 there is neither a cluster nor a bulk copy; linear_cuda() never launches this there.
template <LinearFormat kFormat, int kRowBlocks, LinearEpilogue kEpilogue, TileSchedule kSchedule>
__global__ void linear_kernel(const __grid_constant__ LinearKernelArgs) {}

#endif

template <LinearFormat kFormat, int kRowBlocks, TileSchedule kSchedule>
LinearKernel kernel_for(const LinearVariant& variant) {
  return variant.epilogue == LinearEpilogue::kPlain
             ? linear_kernel<kFormat, kRowBlocks, LinearEpilogue::kPlain, kSchedule>
         : variant.epilogue == LinearEpilogue::kGated
             ? linear_kernel<kFormat, kRowBlocks, LinearEpilogue::kGated, kSchedule>
             : linear_kernel<kFormat, kRowBlocks, LinearEpilogue::kRuntime, kSchedule>;
}
template <LinearFormat kFormat, TileSchedule kSchedule>
LinearKernel kernel_for(const LinearVariant& variant) {
  return variant.row_blocks == 1   ? kernel_for<kFormat, 1, kSchedule>(variant)
         : variant.row_blocks == 2 ? kernel_for<kFormat, 2, kSchedule>(variant)
                                   : kernel_for<kFormat, 4, kSchedule>(variant);
}
// Many warps have a kernel of their own only where they must have fewer registers than few. Which
// schedules bf16 has no use for: linear/cuda/plan.cc.
template <LinearFormat kFormat>
LinearKernel kernel_for(const LinearVariant& variant) {
  if constexpr (kFormat == LinearFormat::kInt4Group128) {
    if (variant.schedule == TileSchedule::kManyWarps && variant.row_blocks == 4) {
      return kernel_for<kFormat, 4, TileSchedule::kManyWarps>(variant);
    }
    if (variant.schedule == TileSchedule::kManyWarps && variant.row_blocks == 1 &&
        variant.epilogue != LinearEpilogue::kRuntime) {
      return variant.epilogue == LinearEpilogue::kGated
                 ? linear_kernel<kFormat, 1, LinearEpilogue::kGated, TileSchedule::kManyWarps>
                 : linear_kernel<kFormat, 1, LinearEpilogue::kPlain, TileSchedule::kManyWarps>;
    }
    if (variant.schedule == TileSchedule::kSlicesInOneWarp) {
      return kernel_for<kFormat, 4, TileSchedule::kSlicesInOneWarp>(variant);
    }
  }
  return variant.schedule == TileSchedule::kMultiPass
             ? kernel_for<kFormat, TileSchedule::kMultiPass>(variant)
             : kernel_for<kFormat, TileSchedule::kSinglePass>(variant);
}

}  // namespace

LinearKernel linear_kernel_for(const LinearVariant& variant) {
  return variant.format == LinearFormat::kBf16 ? kernel_for<LinearFormat::kBf16>(variant)
                                               : kernel_for<LinearFormat::kInt4Group128>(variant);
}

}  // namespace forerun::cuda
