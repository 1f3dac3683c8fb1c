// The kernel for gate and up of int4 at 17 to 32 rows. As in linear_kernel, a cluster has a range
// of tiles, each of its blocks has a part of the inputs, and the order of summation is the same. It
// multiplies by wgmma, which reads the activations directly from shared memory. mma.sync would take
// 64 instructions per unit at 32 rows, one every 6.1 cycles, and load the activations from shared
// memory for every tile.
//
// One producer warp copies weights and another activations into one ring, for 128 inputs (a unit)
// at a time and all tiles of the block, so activations are read once. Four consumer warpgroups
// multiply one or two pairs of tiles (64 outputs) each; a warp has half a tile. A warpgroup with
// one product in flight takes 112 registers, and the others work while it waits. Chains of units
// that different warps of linear_kernel multiply belong to one warp here, which adds them in the
// same order.
#include <algorithm>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_tensor_map.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"
#include "kernels/cuda/wgmma.h"
#include "kernels/linear/cuda/kernels.h"
#include "kernels/linear/cuda/norm.h"
#include "kernels/linear/cuda/output.h"
#include "kernels/linear/cuda/ring.h"
#include "kernels/linear/cuda/unit.h"

namespace forerun::cuda {
namespace {

constexpr LinearFormat kFormat = LinearFormat::kInt4Group128;
constexpr int kRows = 32;
constexpr int kN8Tiles = kRows / 8;
constexpr int kFewestRows = 17;
constexpr int kGroups = 4;  // consumer warpgroups
constexpr int kGroupThreads = 128;
constexpr int kConsumers = kGroups * kGroupThreads;
constexpr int kThreads = kConsumers + kGroupThreads;
constexpr int kMaxSums = 2;  // sums per warp: pairs of tiles times chains
constexpr int kBoxInputs = 64;
constexpr int kBoxBytes = kRows * kBoxInputs * 2;
constexpr int kBoxes = kInt4Group / kBoxInputs;
constexpr int kInputBytes = kBoxes * kBoxBytes;  // activations of a unit
constexpr int kMaxRingStages = 16;
constexpr int kSharedLimit = 227 << 10;
// Offsets in shared memory: barriers of the ring, the barrier of sums from the cluster's blocks,
// the barrier of the rows' scales, and the scales.
constexpr int kReceiveBarrier = kMaxRingStages * 16;
constexpr int kScalesBarrier = kReceiveBarrier + 8;
constexpr int kScales = kScalesBarrier + 8;
constexpr int kReceived = 512;
static_assert(kScales + kRows * 4 <= kReceived);

struct WarpgroupLaunch {
  int stages, stage_bytes, ring_offset;  // the ring; a stage holds a unit of inputs
  int box_bytes;                         // activations of a box
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

constexpr int kConsumerRegisters = 112;
constexpr int kProducerRegisters = 32;

// The products of a unit: the 16 outputs of half a tile times the rows.
struct UnitProduct {
  float part[kRows / 2];
  uint32_t scales;

  // Issues the products. `half_unit`, `scales_at` and `zeros_at` are the addresses of the lane's
  // weights, scales and zero points in shared memory. `rows` is the descriptor of the activations
  // of the same inputs.
  __device__ __forceinline__ void issue(uint32_t half_unit, uint32_t scales_at, uint32_t zeros_at,
                                        uint64_t rows) {
    scales = load_shared_constant_4(scales_at);
    const auto zeros = static_cast<uint32_t>(load_shared_byte(zeros_at));
    const Int4Operand operand(zeros, 0);
    uint32_t a[8][4];
#pragma unroll
    for (int step = 0; step < 8; step += 4) {
      const uint4 v = load_shared_16(half_unit + step / 4 * 512);
      const uint32_t q[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) operand.load(a[step + i], q[i]);
    }
    wgmma_fence();
    wgmma<ActivationFormat::kF16, false>(part, a[0], rows);
#pragma unroll
    for (int step = 1; step < 8; ++step) {
      wgmma<ActivationFormat::kF16, true>(
          part, a[step], wgmma_advance(rows, step / 4 * kBoxBytes + step % 4 * 32));
    }
    wgmma_commit();
  }
  __device__ __forceinline__ void wait() { wgmma_wait<0>(part); }
  __device__ __forceinline__ void add_to(float (&sums)[kRows / 2]) const {
    const float2 scale = __half22float2(reinterpret_cast<const __half2&>(scales));
#pragma unroll
    for (int i = 0; i < kRows / 2; i += 4) {
      Int4Operand::add_scaled(reinterpret_cast<float(&)[4]>(sums[i]),
                              reinterpret_cast<const float(&)[4]>(part[i]), scale);
    }
  }
};

__device__ __forceinline__ void finish(float (&sums)[kRows / 2]) {
#pragma unroll
  for (int i = 0; i < kRows / 2; i += 4) {
    Int4Operand::finish(reinterpret_cast<float(&)[4]>(sums[i]));
  }
}

// The position of a warp in the ring.
struct PipelineState {
  int stage = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Warp 0 copies the weights, warp 1 the activations, of all units of the block into the ring.
__device__ __forceinline__ void produce(const LinearKernelArgs& args, const CUtensorMap& map,
                                        const WarpgroupLaunch& launch, const BlockUnits& block,
                                        uint32_t base, int tile_begin, int tiles, int warp,
                                        int lane) {
  if (warp > 1 || tiles == 0) return;
  const bool copies_weights = warp == 0;
  if (!copies_weights) wait_for_previous_kernel();
  const uint64_t policy = evict_first_policy();
  const std::byte* from =
      args.weight +
      (static_cast<int64_t>(tile_begin + lane) * args.units + block.first) * unit_bytes(kFormat);
  int column = block.first * kInt4Group + lane * kBoxInputs;
  const uint32_t bytes = copies_weights ? tiles * unit_bytes(kFormat) : kBoxes * launch.box_bytes;
  PipelineState at;
#pragma unroll 1
  for (int unit = 0; unit < block.count; ++unit) {
    const uint32_t full = base + at.stage * 8;
    const uint32_t stage = base + launch.ring_offset + at.stage * launch.stage_bytes;
    barrier_wait(full + kMaxRingStages * 8, at.parity ^ 1);
    if (lane == 0) barrier_arrive_expect_tx(full, bytes);
    __syncwarp();
    if (copies_weights) {
      if (lane < tiles) {
        bulk_copy_streaming(stage + kInputBytes + lane * stage_bytes(kFormat), from,
                            unit_bytes(kFormat), full, policy);
      }
      from += unit_bytes(kFormat);
    } else {
      if (lane < kBoxes) tensor_copy(stage + lane * kBoxBytes, map, column, 0, full);
      column += kInt4Group;
    }
    at.advance(launch.stages);
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    linear_warpgroups_kernel(const __grid_constant__ LinearKernelArgs args,
                             const __grid_constant__ CUtensorMap map,
                             const __grid_constant__ WarpgroupLaunch launch) {
  const uint32_t base = kept_shared_address();
  launch_dependents();
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int cta_rank = static_cast<int>(cluster_rank());
  const int cluster = static_cast<int>(cluster_index());
  const int tile_begin = cluster * args.cluster_tiles + min(cluster, args.larger_clusters);
  const int tiles = args.cluster_tiles + (cluster < args.larger_clusters ? 1 : 0);
  const BlockUnits block(args, cta_rank);
  PartialSums sums;
  sums.cta_rank = cta_rank;
  sums.buffer = base + kReceived;
  sums.barrier = base + kReceiveBarrier;
  const InverseRms scales{base + kScales, base + kScalesBarrier};
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int stage = 0; stage < launch.stages; ++stage) {
      barrier_init(base + stage * 8, 2);  // arrivals for weights, activations
      barrier_init(base + (kMaxRingStages + stage) * 8, kConsumers / 32);
    }
    barrier_init(sums.barrier, 1);
    barrier_init(scales.ready, kConsumers / 32);
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_arrive_expect_tx(sums.barrier, sums.bytes(args, tiles * kN8Tiles));
  }
  cluster_arrive_relaxed();
  if (warp >= kConsumers / 32) {
    warpgroup_reg_dealloc<kProducerRegisters>();
    produce(args, map, launch, block, base, tile_begin, tiles, warp - kConsumers / 32, lane);
    cluster_wait();
    return;
  }
  warpgroup_reg_alloc<kConsumerRegisters>();
  cluster_wait();  // the other blocks' barriers are initialized
  wait_for_previous_kernel();
  if (args.input_squares != nullptr) {
    static_assert(kRows == 2 * kConsumers / 32);
    scales.compute_rows<2>(args, 0, 2 * warp, lane);
    if (lane == 0) barrier_arrive(scales.ready);
  }

  // wgmma_uniform() tells the compiler that the value is the same in a warp: wgmma may not depend
  // on a thread.
  const int group = static_cast<int>(wgmma_uniform(threadIdx.x / kGroupThreads));
  const bool alternates = args.slice_k_warps_log2 == 1;  // two chains of units
  const int pairs = group * 2 >= tiles ? 0 : (group + kGroups) * 2 >= tiles ? 1 : 2;
  // Offsets of the warp's unit in the first stage of the ring.
  const uint32_t tile_offset =
      launch.ring_offset + kInputBytes + (group * 2 + warp % 4 / 2) * stage_bytes(kFormat);
  const uint32_t half_unit = opaque(tile_offset + warp % 2 * 1024 + lane * 16);
  const uint32_t scales_at = opaque(tile_offset + 2048 + (lane >> 2) * 8 + warp % 2 * 4);
  const uint32_t zeros_at = opaque(tile_offset + 2112 + (lane >> 2) * 2 + warp % 2);
  constexpr uint32_t kNextPair = 2 * kGroups * stage_bytes(kFormat);
  float acc[kMaxSums][kRows / 2] = {};
  PipelineState at;
#pragma unroll 1
  for (int unit = 0; unit < (tiles > 0 ? block.count : 0); ++unit) {
    const uint32_t full = base + at.stage * 8;
    const uint32_t stage = wgmma_uniform(base + at.stage * launch.stage_bytes);
    const uint64_t rows = wgmma_descriptor<kBoxInputs>(stage + launch.ring_offset);
    barrier_wait(full, at.parity);
    if (pairs > 0) {
      UnitProduct product;
      product.issue(stage + half_unit, stage + scales_at, stage + zeros_at, rows);
      product.wait();
      if (alternates && (unit & 1) != 0) {
        product.add_to(acc[1]);
      } else {
        product.add_to(acc[0]);
      }
    }
    if (pairs > 1) {
      UnitProduct product;
      product.issue(stage + half_unit + kNextPair, stage + scales_at + kNextPair,
                    stage + zeros_at + kNextPair, rows);
      product.wait();
      product.add_to(acc[1]);
    }
    __syncwarp();
    if (elected()) barrier_arrive(full + kMaxRingStages * 8);
    at.advance(launch.stages);
  }
  finish(acc[0]);
  finish(acc[1]);
  if (alternates) {
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) acc[0][i] += acc[1][i];
  }
#pragma unroll
  for (int i = 0; i < kMaxSums; ++i) {
    const int tile = (group + i * kGroups) * 2 + warp % 4 / 2;
    if (tile >= tiles) continue;
#pragma unroll
    for (int n = 0; n < kN8Tiles; ++n) {
      sums.push(
          args, warp % 2, tile * kN8Tiles + n, lane,
          make_float4(acc[i][4 * n], acc[i][4 * n + 1], acc[i][4 * n + 2], acc[i][4 * n + 3]));
    }
  }
  const OutputItems<kN8Tiles> items(args, tile_begin, tiles, 0, cta_rank);
  store_sums<EpilogueKind::kGated>(args, sums, 0, scales, items);
}

#else

__global__ void linear_warpgroups_kernel(const __grid_constant__ LinearKernelArgs,
                                         const __grid_constant__ CUtensorMap,
                                         const __grid_constant__ WarpgroupLaunch) {}

#endif

// Lays out the launch. `stages` is 0 if a block has too few tiles for the warpgroups, or too many
// tiles and chains of units for the registers.
WarpgroupLaunch lay_out(const LinearPlan& plan, int rows) {
  WarpgroupLaunch launch = {};
  const int tiles = ceil_div(plan.tiles, plan.clusters);
  const int pairs = ceil_div(tiles, 2);
  if (pairs <= kGroups / 2 || ceil_div(pairs, kGroups) * plan.slice_k_warps > kMaxSums)
    return launch;
  launch.box_bytes = ceil_div(rows, 8) * 8 * kBoxInputs * 2;
  const int received = 2 * tiles * kN8Tiles;  // halves of fragments, 512 bytes each
  launch.ring_offset =
      (kReceived + ceil_div(received, plan.cluster_size) * plan.cluster_size * 512 + 1023) / 1024 *
      1024;
  launch.stage_bytes = (kInputBytes + pairs * 2 * stage_bytes(kFormat) + 1023) / 1024 * 1024;
  const int stages =
      std::min((kSharedLimit - launch.ring_offset) / launch.stage_bytes, kMaxRingStages);
  launch.stages = stages >= 3 ? stages : 0;
  return launch;
}

}  // namespace

Status prepare_linear_warpgroups() {
  return allow_shared_memory(linear_warpgroups_kernel, kSharedLimit, "loading the linear kernels");
}

bool takes_warpgroups(const LinearPlan& plan, const LinearCall& call) {
  return plan.format == kFormat && call.gated && call.rows >= kFewestRows && call.rows <= kRows &&
         lay_out(plan, call.rows).stages > 0;
}

Status launch_linear_warpgroups(const LinearPlan& plan, const LinearCall& call,
                                const LinearKernelArgs& linear_args, cudaStream_t stream) {
  const WarpgroupLaunch launch = lay_out(plan, call.rows);
  LinearKernelArgs args = linear_args;
  args.receive_places =
      ceil_div(2 * ceil_div(plan.tiles, plan.clusters) * kN8Tiles, plan.cluster_size);
  args.warps = kConsumers / 32;
  FORERUN_ASSIGN_OR_RETURN(
      const CUtensorMap map,
      tensor_map_16_bit(call.input, call.rows, plan.in_features, call.input_stride,
                        launch.box_bytes / (kBoxInputs * 2), kBoxInputs));
  return launch_in_clusters(
      linear_warpgroups_kernel, plan.cluster_size, call.dependent,
      dim3(static_cast<unsigned>(plan.clusters * plan.cluster_size)), dim3(kThreads),
      static_cast<size_t>(launch.ring_offset + launch.stages * launch.stage_bytes), stream,
      "launching a linear layer", args, map, launch);
}

}  // namespace forerun::cuda
