// The arithmetic of the linear kernel for many rows (linear/cuda/tiles.cu): multiplies a chain of
// units by the activations of a tile of rows and adds the products to the sums of a warpgroup.
// Device code; only the kernel includes it.
//
// The products and their order are the same as in Unit (linear/cuda/unit.h): 16 inputs per
// instruction, integers scaled per group. A warp has half a tile, 16 outputs; two warps share a
// tile, and a warpgroup has two tiles.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/cuda/wgmma.h"
#include "kernels/linear/cuda/grouped_unit.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/linear/cuda/tile_ring.h"
#include "kernels/linear/cuda/unit.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <class Stage, LinearFormat kFormat = Stage::kWeightFormat>
struct TileUnit : GroupedTileUnit<Stage> {};

template <class Stage>
struct TileUnit<Stage, LinearFormat::kBf16> {
  static constexpr int kRows = Stage::kRows;
  static constexpr int kSteps = 2 * Stage::kUnits;

  // Computes sums += x . w over `units` units, stage after stage of the ring. The next stage's
  // weights are loaded into registers while the tensor cores multiply this stage's.
  template <class Ring>
  __device__ __forceinline__ void multiply_chain(Ring& ring, int units, int tile, int half,
                                                 int lane, float (&sums)[kRows / 2]) {
    const uint32_t lane_weights =
        Stage::kWeightOffset + tile * stage_bytes(LinearFormat::kBf16) + half * 1024 + lane * 16;
    uint32_t a[2][kSteps][4];
    uint32_t under_way = 0;  // empty barrier of the stage being multiplied, or 0
    const auto next = [&](uint32_t(&weights)[kSteps][4]) {
      ring.wait_full();
      multiply<kSteps>(ring.address(), lane_weights, weights, sums);
      wgmma_wait_for_all_but_one();
      if (under_way != 0) barrier_arrive(under_way);
      under_way = ring.empty_barrier();
      ring.advance();
      units -= Stage::kUnits;
    };
    while (units >= Stage::kUnits) {
      next(a[0]);
      if (units < Stage::kUnits) break;
      next(a[1]);
    }
    wgmma_wait(sums);
    if (under_way != 0) barrier_arrive(under_way);
    if (units == 0) return;
    ring.wait_full();
    uint32_t last[2][4];
    multiply<2>(ring.address(), lane_weights, last, sums);
    wgmma_wait(sums);
    barrier_arrive(ring.empty_barrier());
    ring.advance();
  }

  static __device__ __forceinline__ void finish(float (&)[kRows / 2]) {}

 private:
  // Issues the products of the first kCount steps of a stage. `weights` must not change until the
  // products are done.
  template <int kCount>
  static __device__ __forceinline__ void multiply(uint32_t stage, uint32_t lane_weights,
                                                  uint32_t (&weights)[kCount][4],
                                                  float (&sums)[kRows / 2]) {
#pragma unroll
    for (int step = 0; step < kCount; ++step) {
      const uint4 v = load_shared_16(stage + lane_weights +
                                     step / 2 * kBlockTiles * stage_bytes(LinearFormat::kBf16) +
                                     step % 2 * 512);
      weights[step][0] = v.x;
      weights[step][1] = v.y;
      weights[step][2] = v.z;
      weights[step][3] = v.w;
    }
    const uint64_t rows = wgmma_descriptor<Stage::kBoxInputs>(wgmma_uniform(stage));
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kCount; ++step) {
      wgmma<ActivationFormat::kBf16, true>(sums, weights[step],
                                           wgmma_advance(rows, Stage::step_offset(step)));
    }
    wgmma_commit();
  }
};

// A lane's operands for half a tile, made from a unit of integers in shared memory.
template <LinearFormat kFormat>
struct TileOperands;

template <>
struct TileOperands<LinearFormat::kInt4Group128> {
  using Operand = Int4Operand;
  static constexpr int kSteps = 8;
  uint32_t data;
  Operand operand;

  __device__ __forceinline__ TileOperands(uint32_t unit, int half, int lane)
      : data(unit + half * 1024 + lane * 16),
        operand(static_cast<uint32_t>(load_shared_byte(unit + 2112 + (lane >> 2) * 2 + half)), 0) {}
  // Loads the operands of kCount steps from kFirst on.
  template <int kFirst, int kCount>
  __device__ __forceinline__ void load(uint32_t (&a)[kCount][4]) const {
#pragma unroll
    for (int step = 0; step < kCount; step += 4) {
      const uint4 v = load_shared_16(data + (kFirst + step) / 4 * 512);
      const uint32_t q[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) operand.load(a[step + i], q[i]);
    }
  }
};

template <>
struct TileOperands<LinearFormat::kInt8Group64> {
  using Operand = Int8Operand;
  static constexpr int kSteps = 4;
  uint32_t data;

  __device__ __forceinline__ TileOperands(uint32_t unit, int half, int lane)
      : data(unit + half * 1024 + lane * 16) {}
  template <int kFirst, int kCount>
  __device__ __forceinline__ void load(uint32_t (&a)[kCount][4]) const {
#pragma unroll
    for (int step = 0; step < kCount; step += 2) {
      const uint4 v = load_shared_16(data + (kFirst + step) / 2 * 512);
      Operand::load(a[step], v.x, v.y);
      Operand::load(a[step + 1], v.z, v.w);
    }
  }
};

// For int4 and int8. The products of a unit are scaled while those of the next unit are computed,
// if registers can hold the sums of both (up to 64 rows).
template <class Stage>
struct IntegerTileUnit {
  static constexpr int kRows = Stage::kRows;
  static constexpr int kUnderWay = kRows <= 64 ? 2 : 1;
  using Operands = TileOperands<Stage::kWeightFormat>;
  using Operand = typename Operands::Operand;

  template <class Ring>
  __device__ __forceinline__ void multiply_chain(Ring& ring, int units, int tile, int half,
                                                 int lane, float (&sums)[kRows / 2]) {
    if (units == 0) return;
    Unit unit[kUnderWay];
    if constexpr (kUnderWay == 1) {
      for (; units > 0; --units) {
        unit[0].issue(ring, tile, half, lane);
        unit[0].template add<0>(sums);
      }
    } else {
      unit[0].issue(ring, tile, half, lane);
      // The loop body is written twice, so that each unit's registers have fixed names.
      while (true) {
        if (--units == 0) return unit[0].template add<0>(sums);
        unit[1].issue(ring, tile, half, lane);
        unit[0].template add<1>(sums);
        if (--units == 0) return unit[1].template add<0>(sums);
        unit[0].issue(ring, tile, half, lane);
        unit[1].template add<1>(sums);
      }
    }
  }
  // Finishes the sums of all chains; called once.
  static __device__ __forceinline__ void finish(float (&sums)[kRows / 2]) {
#pragma unroll
    for (int i = 0; i < kRows / 2; i += 4) Operand::finish(four(sums, i));
  }

 private:
  struct Unit {
    float part[kRows / 2] = {};
    uint32_t scales = 0;
    uint32_t empty_barrier = 0;

    // Issues the products of the ring's next unit.
    template <class Ring>
    __device__ __forceinline__ void issue(Ring& ring, int tile, int half, int lane) {
      ring.wait_full();
      const uint32_t stage = ring.address();
      empty_barrier = ring.empty_barrier();
      const uint32_t unit = stage + Stage::kWeightOffset + tile * stage_bytes(Stage::kWeightFormat);
      scales = load_shared_constant_4(unit + 2048 + (lane >> 2) * 8 + half * 4);
      const Operands operands(unit, half, lane);
      const uint64_t rows = wgmma_descriptor<Stage::kBoxInputs>(wgmma_uniform(stage));
      // There is one fence per group of products, since the wait for all groups but the last also
      // counts fences.
      constexpr int kSteps = Operands::kSteps;
      if constexpr (kUnderWay == 1) {
        issue_steps<0, kSteps / 2>(operands, rows);
        issue_steps<kSteps / 2, kSteps / 2>(operands, rows);
      } else {
        issue_steps<0, kSteps>(operands, rows);
      }
      ring.advance();
    }
    template <int kFirst, int kCount>
    __device__ __forceinline__ void issue_steps(const Operands& operands, uint64_t rows) {
      uint32_t a[kCount][4];
      operands.template load<kFirst, kCount>(a);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < kCount; ++step) {
        const uint64_t step_rows = wgmma_advance(rows, Stage::step_offset(kFirst + step));
        if (kFirst + step == 0) {
          wgmma<ActivationFormat::kF16, false>(part, a[step], step_rows);
        } else {
          wgmma<ActivationFormat::kF16, true>(part, a[step], step_rows);
        }
      }
      wgmma_commit();
    }
    // Adds the unit's products to `sums`. kLater is the number of units issued since.
    template <int kLater>
    __device__ __forceinline__ void add(float (&sums)[kRows / 2]) {
      wgmma_wait<kLater>(part);
      barrier_arrive(empty_barrier);
      const float2 scale = __half22float2(reinterpret_cast<const __half2&>(scales));
#pragma unroll
      for (int i = 0; i < kRows / 2; i += 4) {
        Operand::add_scaled(four(sums, i), four(part, i), scale);
      }
    }
  };
  static __device__ __forceinline__ float (&four(float (&v)[kRows / 2], int first))[4] {
    return reinterpret_cast<float(&)[4]>(v[first]);
  }
};

template <class Stage>
struct TileUnit<Stage, LinearFormat::kInt4Group128> : IntegerTileUnit<Stage> {};
template <class Stage>
struct TileUnit<Stage, LinearFormat::kInt8Group64> : IntegerTileUnit<Stage> {};

#endif

}  // namespace forerun::cuda
