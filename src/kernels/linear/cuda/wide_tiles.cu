// The linear kernel for many rows with tiles of 256 outputs. A warp has both halves of a tile of 32
// outputs, so it computes outputs directly from registers, without sums in shared memory. 256
// outputs share a block's activations, so blocks read three quarters of the bytes of tiles of 128
// outputs; these bytes limit the speed (docs/kernels/linear.md). The sums of both halves take 128
// registers of a thread, which leaves none for sums of several chains or for int4.
#include <string>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_tensor_map.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda/item.h"
#include "kernels/linear/cuda/kernels.h"
#include "kernels/linear/cuda/ring.h"
#include "kernels/linear/cuda/tile_frame.h"

namespace forerun::cuda {
namespace {

using WideStage = TileStage<LinearFormat::kBf16, kTileRows, 64, kWideBlockTiles>;
constexpr int kWideStages = tile_stages<WideStage>(kTileBarrierBytes);
constexpr int kWideBytes = kTileBarrierBytes + kWideStages * WideStage::kBytes;
static_assert(kWideStages >= 4);

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

using Sums = float[2][kTileRows / 2];  // sums of the tile's two halves

// Issues the products of half a tile with the first kSteps steps of a stage. `weights` must not
// change until the products are done.
template <int kSteps>
__device__ __forceinline__ void multiply_half(uint32_t stage, uint32_t lane_weights,
                                              uint32_t (&weights)[4][4],
                                              float (&sums)[kTileRows / 2]) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const uint4 v = load_shared_16(stage + lane_weights +
                                   step / 2 * WideStage::kTiles * stage_bytes(LinearFormat::kBf16) +
                                   step % 2 * 512);
    weights[step][0] = v.x;
    weights[step][1] = v.y;
    weights[step][2] = v.z;
    weights[step][3] = v.w;
  }
  const uint64_t rows = wgmma_descriptor<WideStage::kBoxInputs>(wgmma_uniform(stage));
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    wgmma<ActivationFormat::kBf16, true>(sums, weights[step],
                                         wgmma_advance(rows, WideStage::step_offset(step)));
  }
  wgmma_commit();
}

// Computes sums += x . w over `units` units, like TileUnit. One half's weights are loaded into
// registers while the other half is multiplied.
template <class Ring>
__device__ __forceinline__ void multiply_units(Ring& ring, int units, int tile, int lane,
                                               Sums& sums) {
  const uint32_t lane_weights =
      WideStage::kWeightOffset + tile * stage_bytes(LinearFormat::kBf16) + lane * 16;
  uint32_t weights[2][4][4];
  uint32_t under_way = 0;  // empty barrier of the stage with second halves in flight, or 0
#pragma unroll 1
  for (; units >= WideStage::kUnits; units -= WideStage::kUnits) {
    ring.wait_full();
    multiply_half<4>(ring.address(), lane_weights, weights[0], sums[0]);
    wgmma_wait_for_all_but_one();
    if (under_way != 0) barrier_arrive(under_way);
    multiply_half<4>(ring.address(), lane_weights + 1024, weights[1], sums[1]);
    wgmma_wait_for_all_but_one();
    under_way = ring.empty_barrier();
    ring.advance();
  }
  if (units > 0) {
    wgmma_wait(sums[1]);
    if (under_way != 0) barrier_arrive(under_way);
    ring.wait_full();
    multiply_half<2>(ring.address(), lane_weights, weights[0], sums[0]);
    multiply_half<2>(ring.address(), lane_weights + 1024, weights[1], sums[1]);
    under_way = ring.empty_barrier();
    ring.advance();
  }
  wgmma_wait(sums[0]);
  wgmma_wait(sums[1]);
  if (under_way != 0) barrier_arrive(under_way);
}

// Writes 4 unrounded outputs of a tile, from output 4 * (lane / 4) on. v has the layout of
// store_plain().
__device__ __forceinline__ void store_unrounded(const LinearKernelArgs& args, int tile, int lane,
                                                int row, const float4 (&v)[2]) {
  const int first = tile * kTileOutputs + (lane >> 2) * 4;
  const int count = min(4, args.outputs - first);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (row + r >= args.rows) continue;
    float* const to = args.output_f32 + output_at(args, row + r, first);
    const float4 y = r != 0 ? make_float4(v[0].y, v[0].w, v[1].y, v[1].w)
                            : make_float4(v[0].x, v[0].z, v[1].x, v[1].z);
    if (count == 4) {
      *reinterpret_cast<float4*>(to) = y;
    } else {
      if (count > 0) to[0] = y.x;
      if (count > 1) to[1] = y.y;
      if (count > 2) to[2] = y.z;
    }
  }
}

template <bool kGated>
__global__ void __launch_bounds__(kThreads, 1)
    linear_wide_tiles_kernel(const __grid_constant__ LinearKernelArgs args,
                             const __grid_constant__ CUtensorMap map,
                             const __grid_constant__ TileSplit split, int tiles) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  TileFrame<WideStage, kWideStages, kTileBarrierBytes> frame(dynamic_shared_address());
  if (warp >= kConsumerWarps) {
    frame.produce(args, map, split, tiles, warp, lane);
    return;
  }
  warpgroup_reg_alloc<consumer_registers(LinearFormat::kBf16)>();
  wait_for_previous_kernel();
  for (int index = blockIdx.x; index < split.num_work_tiles; index += gridDim.x) {
    Sums sums = {};
    multiply_units(frame.ring, args.units, warp, lane, sums);
    if (args.input_squares != nullptr) frame.scales.wait_full();
    const TileWork work(args, split, index);
    const InverseRms scales{frame.scales.address(), 0};
    const int tile = work.first_tile + warp;
    if (tile < tiles) {
#pragma unroll
      for (int n = 0; n < kTileN8Tiles; ++n) {
        if (n * 8 >= work.rows) break;
        float4 v[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          v[half] = make_float4(sums[half][4 * n], sums[half][4 * n + 1], sums[half][4 * n + 2],
                                sums[half][4 * n + 3]);
        }
        scales.apply(args, n * 8 + (lane & 3) * 2, v);
        const int row = work.first_row + n * 8 + (lane & 3) * 2;
        if constexpr (kGated) {
          store_gated(args, tile, lane >> 2, row, v);
        } else {
          store_unrounded(args, tile, lane, row, v);
        }
      }
    }
    barrier_arrive(frame.scales.empty_barrier());
    frame.scales.advance();
  }
}

#else

template <bool kGated>
__global__ void linear_wide_tiles_kernel(const __grid_constant__ LinearKernelArgs,
                                         const __grid_constant__ CUtensorMap,
                                         const __grid_constant__ TileSplit, int) {}

#endif

}  // namespace

Status prepare_linear_wide_tiles() {
  for (const auto kernel : {linear_wide_tiles_kernel<false>, linear_wide_tiles_kernel<true>}) {
    FORERUN_RETURN_IF_ERROR(
        raise_shared_memory_limit(kernel, kWideBytes, "loading the linear kernels for many rows"));
  }
  return {};
}

Status launch_linear_wide_tiles(const LinearPlan& plan, const LinearCall& call,
                                const LinearKernelArgs& args, const LinearTiling& tiling,
                                cudaStream_t stream) {
  FORERUN_ASSIGN_OR_RETURN(
      const CUtensorMap map,
      tensor_map_16_bit(call.input, call.rows, plan.in_features, call.input_stride,
                        tiling.tile_rows, WideStage::kBoxInputs));
  const TileSplit split(tiling, plan.tiles, call.scratch);
  return launch_dependent(
      call.gated ? linear_wide_tiles_kernel<true> : linear_wide_tiles_kernel<false>,
      dim3(static_cast<unsigned>(tiling.blocks)), dim3(kThreads), size_t{kWideBytes}, stream,
      "launching a linear layer for many rows", args, map, split, plan.tiles);
}

}  // namespace forerun::cuda
