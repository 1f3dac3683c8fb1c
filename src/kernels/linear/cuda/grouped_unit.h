// The arithmetic of the linear kernels for grouped formats (linear/cuda/grouped_operands.h): Unit
// for few rows, TileUnit for many. Both multiply in the same order, so a row has the same bits.
// Device code; only the kernels include it.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/cuda/wgmma.h"
#include "kernels/linear/cuda/grouped_operands.h"
#include "kernels/linear/cuda/ring.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <LinearFormat kFormat>
struct GroupedUnit {
  using Traits = GroupedTraits<kFormat>;
  static constexpr bool kAhead = false;

  // Computes acc += x . w over a unit, up to a power of two by which finish() multiplies. See Unit.
  template <int kN8Tiles, class Ring>
  __device__ __forceinline__ void multiply(const LinearKernelArgs& args, Ring& ring, int lane,
                                           uint32_t input, int n8_tile_bytes,
                                           float (&acc)[2][kN8Tiles][4]) {
    constexpr int kQuads = Traits::kSteps / 4;
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
    float low[2][kN8Tiles][4] = {};
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
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t a[4];
          load_operand<kFormat>(a, quants[half][step / 4], scales[half], step);
#pragma unroll
          for (int n = 0; n < kN8Tiles; ++n) {
            mma_f16(part[half][n], a, odd != 0 ? x[n].z : x[n].x, odd != 0 ? x[n].w : x[n].y);
          }
          if constexpr (Traits::kHasMin) {
            scales[half].min_operand(a, step / Traits::kGroupSteps);
#pragma unroll
            for (int n = 0; n < kN8Tiles; ++n) {
              mma_f16(low[half][n], a, odd != 0 ? x[n].z : x[n].x, odd != 0 ? x[n].w : x[n].y);
            }
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
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int n = 0; n < kN8Tiles; ++n) {
          add_scaled(acc[half][n], low[half][n], scales[half].of_low());
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
#pragma unroll
    for (int part_idx = 0; part_idx < Traits::kSteps / Traits::kPartSteps; ++part_idx) {
      Sums part = {};
      // Processes at most four steps' operands at once.
      constexpr int kCount = Traits::kPartSteps < 4 ? Traits::kPartSteps : 4;
#pragma unroll
      for (int step = 0; step < Traits::kPartSteps; step += kCount) {
        const int first = part_idx * Traits::kPartSteps + step;
        GroupedQuants<kFormat> quants;
        quants.load(unit, half, lane, first / 4);
        uint32_t a[kCount][4];
#pragma unroll
        for (int i = 0; i < kCount; ++i) load_operand<kFormat>(a[i], quants, scales, first + i);
        issue(a, rows, first, step == 0, part);
      }
      wgmma_wait<0>(part);
      add(sums, part, scales.of_part(part_idx));
    }
    if constexpr (Traits::kHasMin) {
      Sums low = {};
#pragma unroll
      for (int first = 0; first < Traits::kSteps; first += 4) {
        uint32_t a[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) scales.min_operand(a[i], (first + i) / Traits::kGroupSteps);
        issue(a, rows, first, first == 0, low);
      }
      wgmma_wait<0>(low);
      add(sums, low, scales.of_low());
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
