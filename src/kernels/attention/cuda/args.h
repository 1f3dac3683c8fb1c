// What the attention kernel (attention/cuda/rows.cu) is given, and how it divides its shared
// memory; what all of attention's kernels are given alike. Included by the kernels alone.
#pragma once

#include <cuda_bf16.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/attention.h"

namespace forerun::cuda {

constexpr int kWarps = kGroupRows;  // of a block
constexpr int kThreads = kWarps * 32;
constexpr int kMaxKvStages = 2;  // tiles on their way, beside a linear layer's block
constexpr int kChunk = 16;       // positions that one instruction takes

constexpr int tile_bytes(int dim) { return kTilePositions * dim * 2; }
constexpr int chunk_bytes(int dim) { return kChunk * dim * 2; }
constexpr int kAttentionBarrierBytes = 128;
// Behind the stages of tiles: values that each warp gathers for itself, or (kFused) the keys and
// values of the extras, and each warp's list of them.
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

// Divides small numbers by one that is known on the host: a division at run time is a chain of a
// hundred cycles.
struct Divisor {
  uint64_t reciprocal = 0;
  int by = 0;

  Divisor() = default;
  explicit Divisor(int by)
      : reciprocal((uint64_t{1} << 32) / static_cast<uint64_t>(by) + 1), by(by) {}
  // For products of n and the divisor below 2^32.
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
  int64_t partial_floats;       // of a row's span, all key/value heads
  int64_t part_partial_floats;  // likewise, of a part of one
  int stages, k_offset, v_offset, kv_heads, num_heads, head_dim, group_heads, parts, row_columns;
  int window;
  Divisor by_row_columns, by_num_heads, by_group_heads, by_parts;
  Divisor by_heads;  // parts of all key/value heads
  float scale_log2;  // 1 / sqrt(head_dim), for powers of two
  bool early;
};

// The arguments of a kernel as far as all of attention's kernels have them.
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

// Likewise, of the kernels that are not clusters.
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
