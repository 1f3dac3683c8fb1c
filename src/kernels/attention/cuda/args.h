// Arguments of the attention kernels, and the shared-memory layout of the row kernel
// (attention/cuda/rows.cu). Only the attention kernels include this file.
#pragma once

#include <cuda_bf16.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/attention.h"

namespace forerun::cuda {

constexpr int kWarps = kQueryTileRows;  // warps per block
constexpr int kThreads = kWarps * 32;
constexpr int kMaxKvStages = 2;  // tiles in flight; leaves room for a linear layer's block
constexpr int kChunk = 16;       // positions per instruction

constexpr int tile_bytes(int dim) { return kTilePositions * dim * 2; }
constexpr int chunk_bytes(int dim) { return kChunk * dim * 2; }
constexpr int kAttentionBarrierBytes = 128;
// Returns the bytes after the tile stages: the values that each warp gathers for itself or, with
// kSplitKvFusedRope, the keys and values of the extras and each warp's list of them.
constexpr int own_bytes(int dim, bool fused) {
  return fused ? 2 * kMaxExtras * dim * 2 + kWarps * kMaxExtras : kWarps * chunk_bytes(dim);
}
constexpr int shared_bytes(int dim, bool fused, int stages) {
  return kAttentionBarrierBytes + stages * 2 * tile_bytes(dim) + own_bytes(dim, fused);
}
constexpr int stages_for(int dim, bool fused, int shared_limit) {
  int stages = kMaxKvStages;
  while (shared_bytes(dim, fused, stages) > shared_limit) --stages;
  return stages;
}

// A divisor that the host knows. Dividing by it takes one multiplication, while an integer division
// on the GPU is a chain of a hundred cycles.
struct Divisor {
  uint64_t reciprocal = 0;
  int by = 0;

  Divisor() = default;
  explicit Divisor(int by)
      : reciprocal((uint64_t{1} << 32) / static_cast<uint64_t>(by) + 1), by(by) {}
  // The quotient is exact while n times the divisor is below 2^32.
  __device__ __forceinline__ int divide(int n) const {
    return static_cast<int>(static_cast<uint64_t>(n) * reciprocal >> 32);
  }
  __device__ __forceinline__ int remainder(int n) const { return n - divide(n) * by; }
};

struct AttentionArgs {
  const AttentionStepCuda* step;
  const __nv_bfloat16* q;
  const __nv_bfloat16* qkv;
  uint16_t* attended;
  ActivationFormat attended_format;
  std::byte* kv;
  float* partials;
  uint32_t* arrivals;
  uint32_t* to_clear;
  uint32_t* failed;
  int64_t qkv_stride, attended_stride, block_stride;
  int64_t partial_floats;       // floats of one span's partial result for all key/value heads
  int64_t part_partial_floats;  // floats of one part of one key/value head in it
  int stages, k_offset, v_offset, kv_heads, num_heads, head_dim, group_heads, parts, row_columns;
  int window;
  Divisor by_row_columns, by_num_heads, by_group_heads, by_parts;
  Divisor by_heads;  // divides by the parts of all key/value heads
  float scale_log2;  // log2(e) / sqrt(head_dim): scores are logarithms to base 2
  bool early;
};

// Fills the arguments that all attention kernels have.
template <class Args>
Args attention_args(const AttentionCallCuda& call) {
  const PagedKvCuda& kv = call.kv;
  Args args = {};
  args.step = call.step;
  args.qkv = call.qkv;
  args.attended = call.attended;
  args.attended_format = call.attended_format;
  args.kv = kv.data;
  args.k_offset = call.k_offset;
  args.v_offset = call.v_offset;
  args.qkv_stride = call.qkv_stride;
  args.attended_stride = call.attended_stride;
  args.block_stride = kv.block_stride_bytes;
  args.kv_heads = kv.num_kv_heads;
  args.group_heads = call.num_heads / kv.num_kv_heads;
  args.parts = query_parts(call.num_heads, kv.num_kv_heads);
  args.row_columns = query_columns(call.num_heads, kv.num_kv_heads);
  args.by_row_columns = Divisor(args.row_columns);
  args.by_parts = Divisor(args.parts);
  args.by_heads = Divisor(args.kv_heads * args.parts);
  args.window = call.window;
  args.scale_log2 = 1.4426950408889634f / std::sqrt(static_cast<float>(kv.head_dim));
  args.early = call.early;
  return args;
}

// Fills the arguments of the kernels that do not run as clusters.
inline AttentionArgs attention_args_of_rows(const AttentionCallCuda& call) {
  const PagedKvCuda& kv = call.kv;
  auto args = attention_args<AttentionArgs>(call);
  args.q = call.q;
  args.partials = call.partials;
  args.arrivals = call.arrivals;
  args.to_clear = call.to_clear;
  args.failed = call.failed;
  args.partial_floats = partial_floats(call.num_heads, kv.num_kv_heads, kv.head_dim);
  args.part_partial_floats = args.partial_floats / (kv.num_kv_heads * args.parts);
  args.num_heads = call.num_heads;
  args.head_dim = kv.head_dim;
  args.by_num_heads = Divisor(args.num_heads);
  args.by_group_heads = Divisor(args.group_heads);
  return args;
}

template <class T>
__device__ __forceinline__ const T* step_data(const AttentionStepCuda* step, int offset) {
  return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(step) + offset);
}

}  // namespace forerun::cuda
