// The arithmetic of the linear kernels for grouped formats (linear/cuda/grouped_operands.h): Unit
// for few rows, TileUnit for many. Both multiply in the same order, so a row has the same bits.
// Device code; only the kernels include it.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/cuda/wgmma.h"
#include "kernels/linear/cuda/group_sums.h"
#include "kernels/linear/cuda/grouped_operands.h"
#include "kernels/linear/cuda/ring.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <LinearFormat kFormat>
struct GroupedUnit {
  using Traits = GroupedTraits<kFormat>;
  static constexpr bool kAhead = false;
  static constexpr int kSumPairs = Traits::kHasMin ? min_groups(kFormat) / 2 : 0;
  // Only for more than 8 rows: where the lane's sums of the next unit's activations are, and the
  // step to the unit after it. Whatever follows the sums of all rows is multiplied into sums that
  // are not read.
  const uint2* sums;
  int sums_step;

  // Whether sums of activations come from memory.
  template <int kN8Tiles>
  static constexpr bool kLoadsSums = (Traits::kHasMin && kN8Tiles > 1);

  // To be called before a tile's first unit, which is unit `unit` of the inputs.
  template <int kN8Tiles>
  __device__ __forceinline__ void begin_tile(const LinearKernelArgs& args, int lane, int first_row,
                                             int unit) {
    if constexpr (kLoadsSums<kN8Tiles>) {
      const int eights = (args.rows + 7) / 8;
      sums = args.group_sums +
             (static_cast<int64_t>(unit) * eights + first_row / 8) * (8 * kSumPairs) +
             lane / 4 * kSumPairs + lane % 4;
      sums_step = eights * (8 * kSumPairs) << args.slice_k_warps_log2;
    }
  }
  // acc += x . w over a unit, up to a power of two that finish() multiplies by. See Unit.
  template <int kN8Tiles, class Ring>
  __device__ __forceinline__ void multiply(const LinearKernelArgs& args, Ring& ring, int lane,
                                           uint32_t input, int n8_tile_bytes,
                                           float (&acc)[2][kN8Tiles][4]) {
    constexpr int kQuads = Traits::kQuads;
    uint2 of_inputs[kLoadsSums<kN8Tiles> ? kN8Tiles : 1] = {};
    if constexpr (kLoadsSums<kN8Tiles>) {
#pragma unroll
      for (int n = 0; n < kN8Tiles; ++n) {
        if (lane % 4 < kSumPairs) of_inputs[n] = sums[n * 8 * kSumPairs];
      }
      sums += sums_step;
    }
    ring.wait();
    const GroupedScales<kFormat> scales[2] = {{ring.data, 0, lane}, {ring.data, 1, lane}};
    GroupedQuants<kFormat> quants[2][kQuads];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad)
        quants[half][quad].load(ring.data, half, lane, quad);
    }
    ring.release(args, quants[1][kQuads - 1].last());
    float part[2][kN8Tiles][4] = {};
    GroupSums<Traits::kGroupSteps, Traits::kScalesOperands> sums_of_unit;
#pragma unroll
    for (int chunk = 0; chunk < Traits::kSteps / 2; ++chunk) {
      uint4 x[kN8Tiles];
#pragma unroll
      for (int n = 0; n < kN8Tiles; ++n) {
        x[n] = ldmatrix_x4(input + n * n8_tile_bytes + chunk * 64);
      }
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int step = chunk * 2 + odd;
        if constexpr (Traits::kHasMin && kN8Tiles == 1) {
          sums_of_unit.add(step, lane, odd != 0 ? x[0].z : x[0].x, odd != 0 ? x[0].w : x[0].y);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t a[4];
          load_operand<kFormat>(a, quants[half][step / 4], scales[half], step);
#pragma unroll
          for (int n = 0; n < kN8Tiles; ++n) {
            mma_f16(part[half][n], a, odd != 0 ? x[n].z : x[n].x, odd != 0 ? x[n].w : x[n].y);
          }
          if ((step + 1) % Traits::kPartSteps == 0) {
            const float2 scale = scales[half].of_part(step / Traits::kPartSteps);
#pragma unroll
            for (int n = 0; n < kN8Tiles; ++n) {
              add_scaled(acc[half][n], part[half][n], scale);
#pragma unroll
              for (int i = 0; i < 4; ++i) part[half][n][i] = 0.0f;
            }
          }
        }
      }
    }
    if constexpr (Traits::kHasMin) {
      if constexpr (kN8Tiles == 1) of_inputs[0] = sums_of_unit.operand();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t a[4];
        scales[half].min_operand(a);
#pragma unroll
        for (int n = 0; n < kN8Tiles; ++n) {
          float low[4] = {};
          mma_f16(low, a, of_inputs[n].x, of_inputs[n].y);
          add_scaled(acc[half][n], low, scales[half].of_low());
        }
      }
    }
  }
  template <int kN8Tiles>
  static __device__ __forceinline__ void finish(float (&acc)[2][kN8Tiles][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < kN8Tiles; ++n) finish_sums_of<kFormat>(acc[half][n]);
    }
  }
};

// A warp has half a tile (linear/cuda/tile_unit.h).
template <class Stage>
struct GroupedTileUnit {
  static constexpr LinearFormat kFormat = Stage::kWeightFormat;
  static constexpr int kRows = Stage::kRows;
  using Traits = GroupedTraits<kFormat>;
  using Sums = float[kRows / 2];

  template <class Ring>
  __device__ __forceinline__ void multiply_chain(Ring& ring, int units, int tile, int half,
                                                 int lane, Sums& sums) {
#pragma unroll 1
    for (; units > 0; --units) {
      ring.wait_full();
      multiply_unit(ring.address(), tile, half, lane, sums);
      barrier_arrive(ring.empty_barrier());
      ring.advance();
    }
  }
  static __device__ __forceinline__ void finish(Sums& sums) {
#pragma unroll
    for (int i = 0; i < kRows / 2; i += 4) finish_sums_of<kFormat>(four(sums, i));
  }

 private:
  static __device__ __forceinline__ void multiply_unit(uint32_t stage, int tile, int half, int lane,
                                                       Sums& sums) {
    const uint32_t unit = stage + Stage::kWeightOffset + tile * stage_bytes(kFormat);
    const GroupedScales<kFormat> scales(unit, half, lane);
    const uint64_t rows = wgmma_descriptor<Stage::kBoxInputs>(wgmma_uniform(stage));
    GroupedQuants<kFormat> quants;
#pragma unroll
    for (int part_idx = 0; part_idx < Traits::kSteps / Traits::kPartSteps; ++part_idx) {
      Sums part = {};
      // Processes at most four steps' operands at once.
      constexpr int kCount = Traits::kPartSteps < 4 ? Traits::kPartSteps : 4;
#pragma unroll
      for (int step = 0; step < Traits::kPartSteps; step += kCount) {
        const int first = part_idx * Traits::kPartSteps + step;
        if (first % 4 == 0) quants.load(unit, half, lane, first / 4);
        uint32_t a[kCount][4];
#pragma unroll
        for (int i = 0; i < kCount; ++i) load_operand<kFormat>(a[i], quants, scales, first + i);
        issue(a, rows, first, step == 0, part);
      }
      wgmma_wait<0>(part);
      add(sums, part, scales.of_part(part_idx));
    }
    if constexpr (Traits::kHasMin) {
      constexpr int kPairs = min_groups(kFormat) / 2;
      const uint32_t of_lane =
          stage + Stage::kSumsOffset + (lane / 4 * kPairs + lane % 4) * sizeof(uint2);
      uint32_t a[4];
      scales.min_operand(a);
#pragma unroll
      for (int n = 0; n < Stage::kN8Tiles; ++n) {
        uint2 of_inputs = make_uint2(0, 0);
        if (lane % 4 < kPairs)
          of_inputs = load_shared_8(of_lane + n * (Stage::kSumsBytes / Stage::kN8Tiles));
        float low[4] = {};
        mma_f16(low, a, of_inputs.x, of_inputs.y);
        add_scaled(four(sums, n * 4), low, scales.of_low());
      }
    }
  }
  // Issues the products of the steps from `first` on. `begins` says that they are the first of
  // `part`.
  template <int kCount>
  static __device__ __forceinline__ void issue(const uint32_t (&a)[kCount][4], uint64_t rows,
                                               int first, bool begins, Sums& part) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint64_t step_rows = wgmma_advance(rows, Stage::step_offset(first + i));
      if (begins && i == 0) {
        wgmma<ActivationFormat::kF16, false>(part, a[i], step_rows);
      } else {
        wgmma<ActivationFormat::kF16, true>(part, a[i], step_rows);
      }
    }
    wgmma_commit();
  }
  static __device__ __forceinline__ void add(Sums& sums, Sums& part, float2 scale) {
#pragma unroll
    for (int i = 0; i < kRows / 2; i += 4) add_scaled(four(sums, i), four(part, i), scale);
  }
  static __device__ __forceinline__ float (&four(Sums& v, int first))[4] {
    return reinterpret_cast<float(&)[4]>(v[first]);
  }
};

#endif

}  // namespace forerun::cuda
