// Weights as the tensor core's 16-row operand, rows of activations as its 8 columns: one
// instruction shape for every row count, and at 8 rows no lane of the tensor core is wasted.
//
// Floor: the weight's bytes over the memory's bandwidth. What decides how near a launch comes:
//  - every warp streams its own units through its own ring in shared memory (bulk copies, one
//    barrier a stage): no producer warp, no barrier between warps in the main loop;
//  - the ring is filled before the previous kernel's end is awaited, and two blocks share an SM, so
//    that the memory keeps working across the boundary between kernels;
//  - 132 blocks, in clusters of at most 2, place themselves one an SM: larger clusters leave SMs
//  idle
//    and double up others;
//  - a cluster of 2 halves the activations that a block reads through the L2 (64 KB instead of 128
//  at
//    8 rows and 8,192 inputs); they stream through shared memory in segments;
//  - partial sums are pushed into the owner's shared memory by asynchronous stores that count down
//    its barrier (no fence, no barrier of the cluster) and added there in the order of the blocks;
//  - int4 becomes bf16 by or-ing a nibble into the mantissa of 128 and subtracting 128 + zero: both
//    exact; the scale multiplies the f32 sum of its 128 inputs, not the weights.
// docs/kernels-cuda.md has the measurements and what was tried.
#include <cuda_bf16.h>

#include <bit>
#include <string>

#include "device/cuda/cuda_error.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/linear_ring_cuda.h"
#include "kernels/linear/linear_unit_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ float4 as_float4(const float (&v)[4]) {
  return make_float4(v[0], v[1], v[2], v[3]);
}
__device__ __forceinline__ void add(float4& a, const float4& b) {
  a.x += b.x;
  a.y += b.y;
  a.z += b.z;
  a.w += b.w;
}
__device__ __forceinline__ float silu_times(float gate, float up) {
  return gate / (1.0f + __expf(-gate)) * up;
}

// Outputs 4g .. 4g + 3 of a tile, of two rows: v[half] holds {output 2 half, row}, {same, row + 1},
// {output 2 half + 1, row}, {same, row + 1}.
__device__ __forceinline__ void store_plain(const LinearKernelArgs& args, int tile, int group,
                                            int row, const float4 (&v)[2]) {
  const int first = tile * kTileOutputs + group * 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (row + r >= args.rows) return;
    float y[4] = {r ? v[0].y : v[0].x, r ? v[0].w : v[0].z, r ? v[1].y : v[1].x,
                  r ? v[1].w : v[1].z};
    const int64_t at = (row + r) * args.output_stride + first;
    const int count = min(4, args.outputs - first);
    if (args.bias != nullptr) {
      for (int i = 0; i < 4; ++i) {
        if (i < count) y[i] += __bfloat162float(args.bias[first + i]);
      }
    }
    if (args.residual != nullptr) {
      for (int i = 0; i < 4; ++i) {
        if (i < count) y[i] += __bfloat162float(args.residual[at + i]);
      }
    }
    if (args.output_f32 != nullptr) {
      for (int i = 0; i < 4; ++i) {
        if (i < count) args.output_f32[at + i] = y[i];
      }
    } else if (count == 4) {
      *reinterpret_cast<uint2*>(args.output + at) =
          make_uint2(pack_bf16x2(y[0], y[1]), pack_bf16x2(y[2], y[3]));
    } else {
      for (int i = 0; i < 3; ++i) {
        if (i < count) args.output[at + i] = __float2bfloat16_rn(y[i]);
      }
    }
  }
}

// v[0] gate, v[1] up of features 2g and 2g + 1.
__device__ __forceinline__ void store_gated(const LinearKernelArgs& args, int tile, int group,
                                            int row, const float4 (&v)[2]) {
  const int first = tile * (kTileOutputs / 2) + group * 2;
  if (first >= args.outputs) return;
  if (row < args.rows) {
    *reinterpret_cast<uint32_t*>(args.output + row * args.output_stride + first) =
        pack_bf16x2(silu_times(v[0].x, v[1].x), silu_times(v[0].z, v[1].z));
  }
  if (row + 1 < args.rows) {
    *reinterpret_cast<uint32_t*>(args.output + (row + 1) * args.output_stride + first) =
        pack_bf16x2(silu_times(v[0].y, v[1].y), silu_times(v[0].w, v[1].w));
  }
}

// Sends a warp's sums of a tile to their owners. Warps that share the tile first lay theirs down in
// `parts`, half of the outputs at a time, and add them in the order of the warps.
template <int kRowBlocks>
__device__ __forceinline__ void send_sums(const PartialSums& sums,
                                          const float (&acc)[2][kRowBlocks][4], float4* parts,
                                          int tile_warp, int input_warp, int input_warps,
                                          int lane) {
  constexpr int kPartVectors = kRowBlocks * 32;  // a warp's sums of half a tile
  if (input_warps == 1) {
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      sums.push(0, tile_warp * kRowBlocks + block, lane, as_float4(acc[0][block]));
      sums.push(1, tile_warp * kRowBlocks + block, lane, as_float4(acc[1][block]));
    }
    return;
  }
  float4* const group_parts = parts + tile_warp * input_warps * kPartVectors;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      group_parts[input_warp * kPartVectors + block * 32 + lane] = as_float4(acc[half][block]);
    }
    named_barrier(1 + tile_warp, input_warps * 32);
    for (int f = input_warp * 32 + lane; f < kPartVectors; f += input_warps * 32) {
      float4 sum = group_parts[f];
      for (int other = 1; other < input_warps; ++other) {
        add(sum, group_parts[other * kPartVectors + f]);
      }
      sums.push(half, tile_warp * kRowBlocks + f / 32, lane, sum);
    }
    named_barrier(1 + tile_warp, input_warps * 32);  // before the next writes
  }
}

// Adds up what this block's peers have sent of `tiles` tiles from `first_tile` on, in the order of
// the peers, and writes the outputs.
template <int kRowBlocks, bool kGated>
__device__ __forceinline__ void store_sums(const LinearKernelArgs& args, const PartialSums& sums,
                                           const std::byte* received, int first_tile, int tiles,
                                           int first_row) {
  const int items = tiles * kRowBlocks << sums.lanes_log2;
  for (int item = threadIdx.x; item < items; item += linear_warps(kRowBlocks) * 32) {
    const int slice = item >> sums.lanes_log2;
    const int from = (sums.rank << sums.lanes_log2) + (item & ((1 << sums.lanes_log2) - 1));
    float4 v[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      v[half] = *reinterpret_cast<const float4*>(received + sums.offset(0, half, slice, from));
    }
#pragma unroll 1
    for (int source = 1; source < 1 << args.cluster_log2; ++source) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        add(v[half],
            *reinterpret_cast<const float4*>(received + sums.offset(source, half, slice, from)));
      }
    }
    const int tile = first_tile + slice / kRowBlocks;
    const int row = first_row + (slice % kRowBlocks) * 8 + (from & 3) * 2;
    if constexpr (kGated) {
      store_gated(args, tile, from >> 2, row, v);
    } else {
      store_plain(args, tile, from >> 2, row, v);
    }
  }
}

// Registers a thread: two blocks of 8 warps leave an SM 8,192 registers for the small kernels
// between two layers. (They must find room beside two linear layers: otherwise they wait for one to
// leave, and the layer after them places two blocks on the SMs that become free first.)
constexpr int registers(int row_blocks) { return linear_warps(row_blocks) == 8 ? 112 : 128; }

template <LinearFormat kFormat, int kRowBlocks, bool kGated>
__global__ void __maxnreg__(registers(kRowBlocks))
    linear_kernel(const __grid_constant__ LinearKernelArgs args) {
  constexpr int kWarps = linear_warps(kRowBlocks);
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
  if (lane == 0) {
    for (int stage = 0; stage < args.stages; ++stage) {
      barrier_init(ring.barrier + stage * 8, 1);
    }
    if (warp == 0) {
      for (int i = 0; i < 2; ++i) barrier_init(receive_barriers + i * 8, 1);
      for (int i = 0; i < kInputSegments; ++i) {
        barrier_init(inputs.full + i * 8, 1);
        barrier_init(inputs.empty + i * 8, kWarps);
      }
    }
    barrier_init_fence();
  }
  for (int stage = 0; stage < args.stages; ++stage) {
    ring.request(args, lane, ring.data + stage * kStageBytes, ring.barrier + stage * 8);
  }
  __syncthreads();
  cluster_arrive_relaxed();  // matched below: no peer is written to before it has started

  const int first_row = blockIdx.y * 8 * kRowBlocks;
  const int rows = min(8 * kRowBlocks, args.rows - first_row);
  const int passes = (tile_end - tile_begin + tile_warps - 1) >> tiles_log2;
  wait_for_previous_kernel();
  const bool inputs_stay = args.segments == args.input_buffers;
  const int block_bytes = block_units * kUnitInputs * 2;
  const __nv_bfloat16* const rows_begin =
      args.input + first_row * args.input_stride + static_cast<int64_t>(block_unit) * kUnitInputs;
  inputs.left = passes == 0 ? 0 : args.segments * (inputs_stay ? 1 : passes);
  if (warp == 0) {
    for (int i = 0; i < args.input_buffers && inputs.left > 0; ++i) {
      inputs.request(args, rows_begin, block_bytes, kRowBlocks, rows, lane);
    }
  }

  // A lane's activations: row lane / 4 of each block of 8, 8 of every 32 inputs.
  const uint32_t input_lane = inputs.data + input_warp * (kUnitInputs * 2) +
                              (lane >> 2) * args.input_stride_bytes + (lane & 3) * 16;
  const int input_step = (kUnitInputs * 2) << args.input_warps_log2;
  const int row_block_bytes = 8 * args.input_stride_bytes;
  PartialSums sums;
  sums.slices = args.receive_buffer_bytes / 1024;
  sums.rank = rank;
  sums.lanes_log2 = 5 - args.cluster_log2;
  const uint32_t magic = opaque(0x43004300u);
  float4* const parts = reinterpret_cast<float4*>(shared + args.reduce_offset);
  int buffer = 0;
  uint32_t receive_parity = 0;
  int input_buffer = 0;  // and whether it has been filled an even number of times before
  uint32_t input_parity = 0;
  int to_recycle = -1;  // the buffer that warp 0 asks to be filled next
  uint32_t recycle_parity = 0;
  Unit<kFormat> weights;
  if constexpr (Unit<kFormat>::kAhead) weights.take(args, ring, lane);
  cluster_wait();
  for (int pass = tile_begin; pass < tile_end; pass += tile_warps) {
    const int tiles = min(tile_warps, tile_end - pass);
    sums.buffer = base + args.receive_offset + buffer * args.receive_buffer_bytes;
    sums.barrier = receive_barriers + buffer * 8;
    if (threadIdx.x == 0) barrier_arrive_expecting(sums.barrier, tiles * kRowBlocks * 1024);
    float acc[2][kRowBlocks][4] = {};
    int units_left = tile_warp < tiles ? ring.tile_units : 0;
    for (int segment = 0; segment < args.segments; ++segment) {
      barrier_wait(inputs.full + input_buffer * 8, input_parity);
      uint32_t input = input_lane + input_buffer * 8 * kRowBlocks * args.input_stride_bytes;
      const int units = min(units_left, args.segment_units);
      units_left -= units;
      for (int unit = 0; unit < units; ++unit, input += input_step) {
        weights.template multiply<kRowBlocks>(args, ring, lane, input, row_block_bytes, magic, acc);
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
          inputs.request(args, rows_begin, block_bytes, kRowBlocks, rows, lane);
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
      send_sums<kRowBlocks>(sums, acc, parts, tile_warp, input_warp, input_warps, lane);
    }
    barrier_wait(sums.barrier, receive_parity);

    store_sums<kRowBlocks, kGated>(
        args, sums, shared + args.receive_offset + buffer * args.receive_buffer_bytes, pass, tiles,
        first_row);
    // Peers that are a pass ahead write to the other buffer. None is two ahead: it would have had
    // to receive what every warp here sends a pass later, after reading this one.
    receive_parity ^= buffer;
    buffer ^= 1;
  }
}

#else

// Below sm_90 there is neither a cluster nor a bulk copy; linear_cuda() never launches this there.
template <LinearFormat kFormat, int kRowBlocks, bool kGated>
__global__ void linear_kernel(const __grid_constant__ LinearKernelArgs) {}

#endif

using Kernel = void (*)(LinearKernelArgs);

template <LinearFormat kFormat, bool kGated>
Kernel kernel_for(int row_blocks) {
  return row_blocks == 1   ? linear_kernel<kFormat, 1, kGated>
         : row_blocks == 2 ? linear_kernel<kFormat, 2, kGated>
                           : linear_kernel<kFormat, 4, kGated>;
}

Kernel kernel_for(LinearFormat format, int row_blocks, bool gated) {
  if (format == LinearFormat::kBf16) {
    return gated ? kernel_for<LinearFormat::kBf16, true>(row_blocks)
                 : kernel_for<LinearFormat::kBf16, false>(row_blocks);
  }
  return gated ? kernel_for<LinearFormat::kInt4Group128, true>(row_blocks)
               : kernel_for<LinearFormat::kInt4Group128, false>(row_blocks);
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
  if (major < 9) {
    return Status(StatusCode::kUnsupported, "cuda:" + std::to_string(device) +
                                                " has compute capability " + std::to_string(major) +
                                                ".x; linear layers on a GPU need 9.0 or later");
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
      for (const bool gated : {false, true}) {
        FORERUN_CUDA_RETURN_IF_ERROR(
            cudaFuncSetAttribute(kernel_for(format, row_blocks, gated),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, limit),
            "loading the linear kernels");
        // An SM changes its division between L1 and shared memory only while it is empty: kernels
        // that are to overlap must all ask for the same.
        FORERUN_CUDA_RETURN_IF_ERROR(
            cudaFuncSetAttribute(kernel_for(format, row_blocks, gated),
                                 cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared),
            "loading the linear kernels");
      }
    }
  }
  return {};
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
  return {};
}

Status linear_cuda(const LinearWeightCuda& weight, const LinearCall& call, cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(check_linear_call(weight, call));
  const LinearPlan& plan = weight.plan();
  FORERUN_ASSIGN_OR_RETURN(const int limit, shared_limit());
  FORERUN_ASSIGN_OR_RETURN(const LinearLaunch launch, plan_launch(plan, call.rows, limit));
  LinearKernelArgs args;
  args.weight = weight.data();
  args.input = call.input;
  args.output = call.output;
  args.output_f32 = call.output_f32;
  args.bias = call.bias;
  args.residual = call.residual;
  args.input_stride = call.input_stride;
  args.output_stride = call.output_stride;
  args.rows = call.rows;
  args.outputs = static_cast<int>(call.gated ? plan.out_features / 2 : plan.out_features);
  args.units = plan.units;
  args.cluster_log2 = std::countr_zero(static_cast<unsigned>(plan.cluster_size));
  args.input_warps_log2 = std::countr_zero(static_cast<unsigned>(plan.input_warps));
  args.cluster_tiles = plan.tiles / plan.clusters;
  args.larger_clusters = plan.tiles % plan.clusters;
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
  config.blockDim = dim3(static_cast<unsigned>(32 * launch.warps));
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
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaLaunchKernelEx(&config, kernel_for(plan.format, launch.row_blocks, call.gated), args),
      "launching a linear layer");
  return {};
}

}  // namespace forerun::cuda
