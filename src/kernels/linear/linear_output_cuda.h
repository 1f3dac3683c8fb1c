// From the sums of a warp of the linear kernel (linear_cuda.cu) to outputs: to the block that owns
// them, added up there, written. Device code; included by the kernel alone.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear_norm_cuda.h"
#include "kernels/linear/linear_plan_cuda.h"
#include "kernels/linear/linear_reduce_cuda.h"
#include "kernels/linear/linear_ring_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {

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
// the peers, and writes the outputs, or with kReduce sends the sums to the group. `squares`: with
// kNorm, the peers' sums of squares [cluster_size][rows].
template <int kRowBlocks, bool kGated, bool kNorm, bool kReduce>
__device__ __forceinline__ void store_sums(const LinearKernelArgs& args, const PartialSums& sums,
                                           const std::byte* received, const float* squares,
                                           int first_tile, int tiles, int first_row) {
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
    if constexpr (kNorm) {
      const int block_row = row - first_row;
      const float scale[2] = {inverse_rms(args, squares, 8 * kRowBlocks, block_row),
                              inverse_rms(args, squares, 8 * kRowBlocks, block_row + 1)};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        v[half] = make_float4(v[half].x * scale[0], v[half].y * scale[1], v[half].z * scale[0],
                              v[half].w * scale[1]);
      }
    }
    if constexpr (kReduce) {
      if (row < args.rows) push_to_peers(args.peers, mailbox_word(args, tile, row, from), v);
    } else if constexpr (kGated) {
      store_gated(args, tile, from >> 2, row, v);
    } else {
      store_plain(args, tile, from >> 2, row, v);
    }
  }
}

// With kReduce, once all sums of the block are on their way: adds up the group's sums of its
// `tiles` tiles from `first_tile` on and writes the outputs.
template <int kRowBlocks>
__device__ __forceinline__ void store_group_sums(const LinearKernelArgs& args, int rank,
                                                 int lanes_log2, int first_tile, int tiles,
                                                 int first_row) {
  PeerWait wait;
  const int items = tiles * kRowBlocks << lanes_log2;
  for (int item = threadIdx.x; item < items; item += linear_warps(kRowBlocks) * 32) {
    const int slice = item >> lanes_log2;
    const int from = (rank << lanes_log2) + (item & ((1 << lanes_log2) - 1));
    const int tile = first_tile + slice / kRowBlocks;
    const int row = first_row + (slice % kRowBlocks) * 8 + (from & 3) * 2;
    if (row >= args.rows) continue;
    float4 v[2];
    collect_from_peers(args.peers, mailbox_word(args, tile, row, from), wait, v);
    store_plain(args, tile, from >> 2, row, v);
  }
  // Host memory is put back before another GPU can know that this kernel has ended.
  if (args.peers.received_on_host) __threadfence_system();
}

#endif

}  // namespace forerun::cuda
