// Weights as the tensor core's 16-row operand, rows of activations as its 8 columns: one
// instruction shape for every row count, and at 8 rows no lane of the tensor core is wasted.
//
// Floor: the weight's bytes over the memory's bandwidth. What decides how near a launch comes:
//  - every warp streams its own units through its own ring in shared memory (bulk copies, one
//    barrier a stage): no producer warp, no barrier between warps in the main loop;
//  - the ring is filled before the previous kernel's end is awaited, and two blocks share an SM, so
//    that the memory keeps working across the boundary between kernels;
//  - 132 blocks, in clusters of at most 2, place themselves one an SM: larger clusters leave SMs
//    idle and double up others;
//  - a cluster of 2 halves the activations that a block reads through the L2: 64 KB for 128 at 8
//    rows and 8,192 inputs; they come at once where they fit, otherwise in segments;
//  - partial sums are pushed into the owner's shared memory by asynchronous stores that count down
//    its barrier (no fence, no barrier of the cluster) and added there in the order of the blocks;
//  - a nibble is a subnormal f16 where it lies, so that int4 takes an instruction a pair of weights
//    and another to subtract the zero point, exactly; the scale multiplies the f32 sum of its 128
//    inputs, not the weights;
//  - a norm in front costs no launch: its weight has multiplied the activations where they were
//    made, the inverse root mean square multiplies the finished sums (rms_norm_cuda.h);
//  - a multiprocessor's instruction cache does not hold the kernels of a layer, and fetching them
//    again costs microseconds: loops that run once or twice are not unrolled, and where sums over a
//    group would make a third kernel, beside the plain one and the gated one, one serves all.
// docs/kernels-cuda.md has the measurements and what was tried.
#include <cuda_bf16.h>

#include <bit>
#include <string>

#include "device/cuda/cuda_error.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/linear_norm_cuda.h"
#include "kernels/linear/linear_output_cuda.h"
#include "kernels/linear/linear_ring_cuda.h"
#include "kernels/linear/linear_tiles_cuda.h"
#include "kernels/linear/linear_unit_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Registers a thread: two blocks of 8 warps leave an SM 8,192 registers for the small kernels
// between two layers. (They must find room beside two linear layers: otherwise they wait for one to
// leave, and the layer after them places two blocks on the SMs that become free first.) At 32 rows
// a block has an SM to itself.
constexpr int registers(int row_blocks) { return row_blocks == 4 ? 224 : 112; }

template <LinearFormat kFormat, int kRowBlocks, LinearEnd kEnd>
__global__ void __maxnreg__(registers(kRowBlocks))
    linear_kernel(const __grid_constant__ LinearKernelArgs args) {
  constexpr int kWarps = kLinearWarps;
  constexpr int kWarpsLog2 = std::countr_zero(static_cast<unsigned>(kWarps));
  constexpr int kUnitBytes = unit_bytes(kFormat);
  constexpr int kStageBytes = stage_bytes(kFormat);
  constexpr int kUnitInputs = unit_inputs(kFormat);
  extern __shared__ __align__(128) std::byte shared[];
  const uint32_t base = shared_address(shared);

  launch_dependents();
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int rank = static_cast<int>(cluster_rank());
  const int cluster = static_cast<int>(blockIdx.x) >> args.cluster_log2;
  const int input_warps = 1 << args.input_warps_log2;
  const int tile_warps = kWarps >> args.input_warps_log2;
  const int input_warp = warp & (input_warps - 1);
  const int tile_warp = warp >> args.input_warps_log2;
  const int tile_begin = cluster * args.cluster_tiles + min(cluster, args.larger_clusters);
  const int tile_end = tile_begin + args.cluster_tiles + (cluster < args.larger_clusters ? 1 : 0);
  const int block_unit = rank * args.units >> args.cluster_log2;
  const int block_units = ((rank + 1) * args.units >> args.cluster_log2) - block_unit;

  // The ring fills while the previous kernel still runs.
  const int tiles_log2 = kWarpsLog2 - args.input_warps_log2;  // of tile_warps
  const int warp_tiles = (tile_end - tile_begin - tile_warp + tile_warps - 1) >> tiles_log2;
  UnitRing<kUnitBytes, kStageBytes> ring;
  ring.next = args.weight + (static_cast<int64_t>(tile_begin + tile_warp) * args.units +
                             block_unit + input_warp) *
                                kUnitBytes;
  ring.policy = evict_first_policy();
  // The warps that share a tile take its units in turn, so that they want the same activations.
  ring.tile_units = (block_units - input_warp + input_warps - 1) >> args.input_warps_log2;
  ring.left_in_tile = ring.tile_units;
  ring.tile_skip = tile_warps * args.units - ring.tile_units * input_warps;
  ring.to_request = warp_tiles * ring.tile_units;
  ring.to_use = ring.to_request;
  ring.data = base + args.ring_offset + warp * args.stages * kStageBytes;
  ring.data_end = ring.data + args.stages * kStageBytes;
  ring.barrier = base + warp * kMaxStages * 8;
  InputRing inputs;
  inputs.data = base + kBarrierBytes;
  inputs.full = base + kWarps * kMaxStages * 8;
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
      barrier_init(scales.ready, kWarps);
      for (int i = 0; i < kInputSegments; ++i) {
        barrier_init(inputs.full + i * 8, 1);
        barrier_init(inputs.empty + i * 8, kWarps);
      }
    }
    barrier_init_fence();
  }
#pragma unroll 1
  for (int stage = 0; stage < args.stages; ++stage) {
    ring.request(args, lane, ring.data + stage * kStageBytes, ring.barrier + stage * 8);
  }
  __syncthreads();
  cluster_arrive_relaxed();  // matched below: no peer is written to before it has started

  const int first_row = blockIdx.y * 8 * kRowBlocks;
  const int rows = min(8 * kRowBlocks, args.rows - first_row);
  const int passes = (tile_end - tile_begin + tile_warps - 1) >> tiles_log2;
  prefetch_next_norm(args, tile_begin, tile_end);
  wait_for_previous_kernel();
  const bool inputs_stay = args.segments == args.input_buffers;
  const int block_bytes = block_units * kUnitInputs * 2;
  const uint16_t* const block_inputs = args.input + static_cast<int64_t>(block_unit) * kUnitInputs;
  inputs.left = passes == 0 ? 0 : args.segments * (inputs_stay ? 1 : passes);
#pragma unroll 1
  for (int i = 0; i < args.input_buffers && inputs.left > 0; ++i) {
    inputs.request(args, block_inputs, block_bytes, kRowBlocks, first_row, rows, warp, kWarps,
                   lane);
  }
  scales.find(args, first_row, rows, kWarps, warp, lane);

  // A lane's part in loading activations: row lane % 8 of each block of 8, 8 of every 32 inputs.
  const uint32_t input_lane = inputs.data + input_warp * (kUnitInputs * 2) +
                              (lane & 7) * args.input_stride_bytes + (lane >> 3) * 16;
  const int input_step = (kUnitInputs * 2) << args.input_warps_log2;
  const int row_block_bytes = 8 * args.input_stride_bytes;
  PartialSums sums;
  sums.slices = args.receive_buffer_bytes / 1024;
  sums.rank = rank;
  sums.lanes_log2 = 5 - args.cluster_log2;
  uint32_t passes_done = 0;
  int input_buffer = 0;  // and whether it has been filled an even number of times before
  uint32_t input_parity = 0;
  int to_recycle = -1;  // the buffer that warp 0 asks to be filled next
  uint32_t recycle_parity = 0;
  Unit<kFormat> weights;
  if constexpr (Unit<kFormat>::kAhead) weights.take(args, ring, lane);
  cluster_wait();
  for (int pass = tile_begin; pass < tile_end; pass += tile_warps) {
    const int tiles = min(tile_warps, tile_end - pass);
    sums.buffer = base + args.receive_offset + (passes_done & 1) * args.receive_buffer_bytes;
    sums.barrier = receive_barriers + (passes_done & 1) * 8;
    if (threadIdx.x == 0) barrier_arrive_expecting(sums.barrier, tiles * kRowBlocks * 1024);
    float acc[2][kRowBlocks][4] = {};
    int units_left = tile_warp < tiles ? ring.tile_units : 0;
    for (int segment = 0; segment < args.segments; ++segment) {
      barrier_wait(inputs.full + input_buffer * 8, input_parity);
      uint32_t input = input_lane + input_buffer * 8 * kRowBlocks * args.input_stride_bytes;
      const int units = min(units_left, args.segment_units);
      units_left -= units;
      for (int unit = 0; unit < units; ++unit, input += input_step) {
        weights.template multiply<kRowBlocks>(args, ring, lane, input, row_block_bytes, acc);
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
          inputs.request(args, block_inputs, block_bytes, kRowBlocks, first_row, rows, 0, 1, lane);
        }
        to_recycle = input_buffer;
        recycle_parity = input_parity;
      }
      if (++input_buffer == args.input_buffers) {
        input_buffer = 0;
        input_parity ^= 1;
      }
    }
    if (tile_warp < tiles) {
      send_sums<kRowBlocks>(sums, acc, base + args.reduce_offset, tile_warp, input_warp,
                            input_warps, lane);
    }
    const OutputItems<kRowBlocks> items(args, pass, tiles, first_row, rank);
    store_sums<kEnd>(args, sums, passes_done >> 1 & 1, scales, items);
    // Peers that are a pass ahead write to the other buffer. None is two ahead: it would have had
    // to receive what every warp here sends a pass later, after reading this one.
    ++passes_done;
  }
  if (ends_in_sum<kEnd>(args)) {
    store_group_sums(
        args, OutputItems<kRowBlocks>(args, tile_begin, tile_end - tile_begin, first_row, rank));
  }
}

#else

// Below sm_90 there is neither a cluster nor a bulk copy; linear_cuda() never launches this there.
template <LinearFormat kFormat, int kRowBlocks, LinearEnd kEnd>
__global__ void linear_kernel(const __grid_constant__ LinearKernelArgs) {}

#endif

using Kernel = void (*)(LinearKernelArgs);

template <LinearFormat kFormat, int kRowBlocks>
Kernel kernel_for(LinearEnd end) {
  return end == LinearEnd::kPlain   ? linear_kernel<kFormat, kRowBlocks, LinearEnd::kPlain>
         : end == LinearEnd::kGated ? linear_kernel<kFormat, kRowBlocks, LinearEnd::kGated>
                                    : linear_kernel<kFormat, kRowBlocks, LinearEnd::kAny>;
}
template <LinearFormat kFormat>
Kernel kernel_for(int row_blocks, LinearEnd end) {
  return row_blocks == 1   ? kernel_for<kFormat, 1>(end)
         : row_blocks == 2 ? kernel_for<kFormat, 2>(end)
                           : kernel_for<kFormat, 4>(end);
}
Kernel kernel_for(LinearFormat format, int row_blocks, LinearEnd end) {
  return format == LinearFormat::kBf16 ? kernel_for<LinearFormat::kBf16>(row_blocks, end)
                                       : kernel_for<LinearFormat::kInt4Group128>(row_blocks, end);
}

// The shared memory that a block may ask for; fails on a device that the kernels do not run on.
Result<int> shared_limit() {
  int device = 0;
  int major = 0;
  int limit = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device), "asking for the current GPU");
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
      "asking for the compute capability");
  // The instructions of sm_90a are no later GPU's.
  if (major != 9) {
    return Status(StatusCode::kUnsupported, "cuda:" + std::to_string(device) +
                                                " has compute capability " + std::to_string(major) +
                                                ".x; linear layers on a GPU need 9.0");
  }
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
      "asking for the shared memory of a block");
  return limit;
}

}  // namespace

Status prepare_linear_cuda() {
  FORERUN_ASSIGN_OR_RETURN(const int limit, shared_limit());
  for (const LinearFormat format : {LinearFormat::kInt4Group128, LinearFormat::kBf16}) {
    for (const int row_blocks : {1, 2, 4}) {
      for (const LinearEnd end : {LinearEnd::kPlain, LinearEnd::kGated, LinearEnd::kAny}) {
        const Kernel kernel = kernel_for(format, row_blocks, end);
        FORERUN_CUDA_RETURN_IF_ERROR(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limit),
            "loading the linear kernels");
        // An SM changes its division between L1 and shared memory only while it is empty: kernels
        // that are to overlap must all ask for the same.
        FORERUN_CUDA_RETURN_IF_ERROR(
            cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared),
            "loading the linear kernels");
      }
    }
  }
  return prepare_linear_tiles();
}

Status check_linear_call(const LinearWeightCuda& weight, const LinearCall& call) {
  const LinearPlan& plan = weight.plan();
  const int64_t outputs = call.gated ? plan.out_features / 2 : plan.out_features;
  const auto refuse = [](const char* what) {
    return Status(StatusCode::kInvalidArgument, std::string("linear on a GPU: ") + what);
  };
  if (call.rows < 1) return refuse("rows must be at least 1");
  if (call.input == nullptr || (call.output == nullptr) == (call.output_f32 == nullptr)) {
    return refuse("an input and one of the two outputs are needed");
  }
  if (call.output_f32 != nullptr && (call.gated || call.residual != nullptr)) {
    return refuse("a gated layer and one with a residual have bf16 outputs");
  }
  if (call.input_stride < plan.in_features || call.input_stride % 8 != 0) {
    return refuse("input_stride must be a multiple of 8 and hold a row");
  }
  if (call.output_stride < outputs || call.output_stride % 4 != 0) {
    return refuse("output_stride must be a multiple of 4 and hold a row");
  }
  if (call.gated && (call.bias != nullptr || call.residual != nullptr)) {
    return refuse("a gated layer takes neither bias nor residual");
  }
  if (call.gated && plan.out_features % kTileOutputs != 0) {
    return refuse("a gated layer's outputs must be a multiple of 32");
  }
  if (call.next_norm.weight != nullptr) {
    if (call.next_norm.scaled == nullptr || call.next_norm.squares == nullptr) {
      return refuse("a norm needs room for its products and sums of squares");
    }
    if (call.gated || call.output == nullptr || plan.out_features % kTileOutputs != 0) {
      return refuse("what a norm follows has bf16 outputs, a multiple of 32, and is not gated");
    }
    if (plan.cluster_size > 2) {
      return refuse("what a norm follows must be split over at most 2 blocks");
    }
  }
  if (call.reduce == nullptr) return {};
  if (call.gated || call.norm.squares != nullptr || call.output == nullptr) {
    return refuse("a sum over a group has bf16 outputs, no normalized input and is not gated");
  }
  if (call.mailbox != 0 && call.mailbox != 1) return refuse("mailbox must be 0 or 1");
  const int64_t words = int64_t{plan.tiles} * ((call.rows + 7) / 8) * 32;
  if (words > call.reduce->slot_words) {
    return refuse("a sum over a group of more rows or outputs than its mailboxes hold");
  }
  return {};
}

Status linear_cuda(const LinearWeightCuda& weight, const LinearCall& call, cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(check_linear_call(weight, call));
  const LinearPlan& plan = weight.plan();
  FORERUN_ASSIGN_OR_RETURN(const int limit, shared_limit());
  LinearKernelArgs args = {};
  args.weight = weight.data();
  args.input = call.input;
  args.output = call.output;
  args.output_f32 = call.output_f32;
  args.bias = call.bias;
  args.residual = call.residual;
  args.row_index = call.row_index;
  args.input_squares = call.norm.squares;
  args.norm_eps = call.norm.eps;
  args.next_norm = call.next_norm;
  args.gated = call.gated;
  args.gated_format = call.gated_format;
  args.input_stride = call.input_stride;
  args.output_stride = call.output_stride;
  args.rows = call.rows;
  args.inputs = static_cast<int>(plan.in_features);
  args.outputs = static_cast<int>(call.gated ? plan.out_features / 2 : plan.out_features);
  args.units = plan.units;
  args.cluster_log2 = std::countr_zero(static_cast<unsigned>(plan.cluster_size));
  args.input_warps_log2 = std::countr_zero(static_cast<unsigned>(plan.input_warps));
  args.cluster_tiles = plan.tiles / plan.clusters;
  args.larger_clusters = plan.tiles % plan.clusters;
  if (call.reduce != nullptr) {
    args.peers = call.reduce->turn(call.mailbox);
    args.two_shot = int64_t{2} * call.rows * plan.out_features >= call.reduce->two_shot_bytes;
  }
  if (call.rows >= kFewestTileRows && call.row_index == nullptr) {
    return launch_linear_tiles(plan, call, args, stream);
  }
  FORERUN_ASSIGN_OR_RETURN(const LinearLaunch launch,
                           plan_launch(plan, call.rows, limit, call.over_half));
  args.stages = launch.stages;
  args.segment_units = launch.segment_units;
  args.segment_bytes = launch.segment_units * plan.input_warps * unit_inputs(plan.format) * 2;
  args.segments = launch.segments;
  args.input_buffers = launch.input_buffers;
  args.input_stride_bytes = launch.input_stride_bytes;
  args.reduce_offset = launch.reduce_offset;
  args.receive_offset = launch.receive_offset;
  args.ring_offset = launch.ring_offset;
  args.receive_buffer_bytes = launch.receive_buffer_bytes;

  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(plan.clusters * plan.cluster_size),
                        static_cast<unsigned>(launch.row_tiles));
  config.blockDim = dim3(32 * kLinearWarps);
  config.dynamicSmemBytes = static_cast<size_t>(launch.shared_bytes);
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(plan.cluster_size);
  attributes[0].val.clusterDim.y = 1;
  attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes;
  config.numAttrs = call.dependent ? 2 : 1;
  const LinearEnd end = call.reduce != nullptr || call.beside_sums ? LinearEnd::kAny
                        : call.gated                               ? LinearEnd::kGated
                                                                   : LinearEnd::kPlain;
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaLaunchKernelEx(&config, kernel_for(plan.format, launch.row_blocks, end), args),
      "launching a linear layer");
  return {};
}

}  // namespace forerun::cuda
