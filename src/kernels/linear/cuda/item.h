// The outputs of a block of the linear kernels (linear/cuda/linear.cu, linear/cuda/tiles.cu), and
// code that writes them. Device code; only the kernels include it.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/norm.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/linear/cuda/reduce.h"
#include "kernels/linear/cuda/ring.h"
#include "kernels/linear/cuda/silu.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ float4 as_float4(const float (&v)[4]) {
  return make_float4(v[0], v[1], v[2], v[3]);
}
template <int kN8Tiles>
__device__ __forceinline__ void add(float (&a)[2][kN8Tiles][4], const float (&b)[2][kN8Tiles][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int n = 0; n < kN8Tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[half][n][i] += b[half][n][i];
    }
  }
}
__device__ __forceinline__ float4 load_shared_sums(uint32_t address) {
  const uint4 v = load_shared_16(address);
  return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
                     __uint_as_float(v.w));
}
__device__ __forceinline__ void store_shared_sums(uint32_t address, const float (&v)[4]) {
  store_shared_16(address, make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]),
                                      __float_as_uint(v[2]), __float_as_uint(v[3])));
}
// Loads `count` adjacent bf16, at most 4, followed by zeros.
__device__ __forceinline__ uint2 load_bf16x4(const __nv_bfloat16* from, int count) {
  if (count == 4) return *reinterpret_cast<const uint2*>(from);
  const auto* const bits = reinterpret_cast<const uint16_t*>(from);
  return make_uint2(bits[0] | (count > 1 ? uint32_t{bits[1]} << 16 : 0), count > 2 ? bits[2] : 0);
}
__device__ __forceinline__ void add(float4& a, uint2 pairs) {
  add(a, unpack_pairs(pairs.x, pairs.y));
}

// Returns the index of output `first` of a row. linear_cuda() ensures that 32 bits suffice.
__device__ __forceinline__ uint32_t output_at(const LinearKernelArgs& args, int row, int first) {
  return static_cast<uint32_t>(row) * static_cast<uint32_t>(args.output_stride) +
         static_cast<uint32_t>(first);
}

// Outputs 4g to 4g + 3 of a tile, g = lane / 4, of rows `row` and `row` + 1, with the data that
// their epilogue reads from global memory, which are loaded before the sums are complete. Items are
// zeroed first: ptxas would keep a register that is not always written occupied during the whole
// loop.
struct OutputItem {
  int tile, lane, row;
  uint2 bias, residual[2];  // pairs of bf16
  float4 next_norm;

  __device__ __forceinline__ int first_output() const {
    return tile * kTileOutputs + (lane >> 2) * 4;
  }
  __device__ __forceinline__ void load(const LinearKernelArgs& args) {
    load_weights(args);
    load_residual(args);
  }
  // Loads the data that no kernel writes.
  __device__ __forceinline__ void load_weights(const LinearKernelArgs& args) {
    const int first = first_output();
    const int count = min(4, args.outputs - first);
    if (count <= 0) return;
    if (args.bias != nullptr) bias = load_bf16x4(args.bias + first, count);
    if (args.next_norm.weight != nullptr) {
      next_norm = *reinterpret_cast<const float4*>(args.next_norm.weight + first);
    }
  }
  __device__ __forceinline__ void load_residual(const LinearKernelArgs& args) {
    const int first = first_output();
    const int count = min(4, args.outputs - first);
    if (count <= 0 || args.residual == nullptr) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row + r < args.rows) {
        residual[r] = load_bf16x4(args.residual + output_at(args, row + r, first), count);
      }
    }
  }
};

// A block's outputs in `tiles` tiles from `first_tile` on, distributed over its threads. opaque()
// keeps the compiler from computing values derived from these fields early: they would occupy
// registers during the main loop, which needs them all.
template <int kN8Tiles>
struct OutputItems {
  int first_tile, first_row, cta_rank, size, count;  // `count`: halves of fragments of the cluster

  __device__ __forceinline__ OutputItems(const LinearKernelArgs& args, int first, int tiles,
                                         int row, int cluster_rank)
      : first_tile(first),
        first_row(row),
        cta_rank(cluster_rank),
        size(static_cast<int>(opaque(static_cast<uint32_t>(args.cluster_size)))),
        count(2 * tiles * kN8Tiles) {}

  static __device__ __forceinline__ int first() { return static_cast<int>(opaque(threadIdx.x)); }
  // Warps stay whole, so that write_squares() may exchange data between lanes: lanes past the last
  // item get the first half again, with a row past the end.
  __device__ __forceinline__ bool has(int index) const {
    return cta_rank + (index >> kHalfLanesLog2) * size < count;
  }
  __device__ __forceinline__ bool warp_has(int index) const { return has(index & ~31); }
  __device__ __forceinline__ int place(int index) const {  // see PartialSums::place()
    return has(index) ? index >> kHalfLanesLog2 : 0;
  }
  __device__ __forceinline__ OutputItem at(const LinearKernelArgs& args, int index) const {
    const auto half = static_cast<uint32_t>(cta_rank + place(index) * size);
    OutputItem item = {};
    item.tile = first_tile + static_cast<int>(half / (2 * kN8Tiles));
    item.lane = static_cast<int>(half % 2 * kHalfLanes) + (index & (kHalfLanes - 1));
    item.row = has(index) ? first_row + block_row(index, item.lane) : args.rows;
    return item;
  }
  __device__ __forceinline__ int block_row(int index, int lane) const {
    const auto half = static_cast<uint32_t>(cta_rank + place(index) * size);
    return static_cast<int>(half / 2 % kN8Tiles * 8) + (lane & 3) * 2;
  }
};

// Adds bias and residual. v[half] holds {output 2 half, row}, {same, row + 1}, {output 2 half + 1,
// row}, {same, row + 1}.
__device__ __forceinline__ void finish_sums(const LinearKernelArgs& args, const OutputItem& item,
                                            float4 (&v)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float4 y = r != 0 ? make_float4(v[0].y, v[0].w, v[1].y, v[1].w)
                      : make_float4(v[0].x, v[0].z, v[1].x, v[1].z);
    if (args.bias != nullptr) add(y, item.bias);
    if (args.residual != nullptr) add(y, item.residual[r]);
    (r != 0 ? v[0].y : v[0].x) = y.x;
    (r != 0 ? v[0].w : v[0].z) = y.y;
    (r != 0 ? v[1].y : v[1].x) = y.z;
    (r != 0 ? v[1].w : v[1].z) = y.w;
  }
}

// Writes outputs after finish_sums(). For whole warps.
__device__ __forceinline__ void store_plain(const LinearKernelArgs& args, const OutputItem& item,
                                            const float4 (&v)[2]) {
  const int first = item.first_output();
  const int count = min(4, args.outputs - first);
  float squares[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (item.row + r >= args.rows) continue;
    const uint32_t at = output_at(args, item.row + r, first);
    const float4 y = r != 0 ? make_float4(v[0].y, v[0].w, v[1].y, v[1].w)
                            : make_float4(v[0].x, v[0].z, v[1].x, v[1].z);
    if (count == 4) {
      if (args.output_f32 != nullptr) {
        *reinterpret_cast<float4*>(args.output_f32 + at) = y;
        continue;
      }
      const uint2 x = make_uint2(pack_bf16x2(y.x, y.y), pack_bf16x2(y.z, y.w));
      *reinterpret_cast<uint2*>(args.output + at) = x;
      if (args.next_norm.weight != nullptr) {
        squares[r] = write_scaled(args, at, x, item.next_norm);
      }
      continue;
    }
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const float value = i == 0 ? y.x : i == 1 ? y.y : y.z;
      if (args.output_f32 != nullptr) {
        args.output_f32[at + static_cast<uint32_t>(i)] = value;
      } else {
        args.output[at + static_cast<uint32_t>(i)] =
            __bfloat16_as_ushort(__float2bfloat16_rn(value));
      }
    }
  }
  if (args.next_norm.weight != nullptr) {
    write_squares(args, item.tile, item.lane, item.row, squares);
  }
}

// Writes features 2g and 2g + 1, g = `group`. v[0] is gate, v[1] is up.
__device__ __forceinline__ void store_gated(const LinearKernelArgs& args, int tile, int group,
                                            int row, const float4 (&v)[2]) {
  const int first = tile * (kTileOutputs / 2) + group * 2;
  if (first >= args.outputs || row >= args.rows) return;
  const bool both = row + 1 < args.rows;
  float4 gate = v[0];
  // The sums of a row past the end must not make the lane take the slow division.
  if (!both) gate.y = gate.w = 0.0f;
  const float4 y = silu_times(gate, v[1]);
  *reinterpret_cast<uint32_t*>(args.output + output_at(args, row, first)) =
      pack_activations(args.gated_format, y.x, y.z);
  if (both) {
    *reinterpret_cast<uint32_t*>(args.output + output_at(args, row + 1, first)) =
        pack_activations(args.gated_format, y.y, y.w);
  }
}

#endif

}  // namespace forerun::cuda
