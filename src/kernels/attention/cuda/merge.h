// Partial results of attention: kernels store them through the L2, merge them in the order of
// spans, and write outputs. Device code; only the attention kernels include it.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/attention/cuda/row.h"
#include "kernels/cuda/divide.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Returns the address of the partial result of one part of a key/value head: the weighted sums of
// its heads, then each head's largest score and sum of exponentials. Every 16 dimensions of a head
// are stored in the order 2t, 2t + 1, 8 + 2t, 9 + 2t for t = 0 to 3.
__device__ __forceinline__ float* partial_at(const AttentionArgs& args, int partial, int head) {
  return args.partials + partial * args.partial_floats + head * args.part_partial_floats;
}

template <int kDim>
__device__ __forceinline__ void store_partial(const AttentionArgs& args, const RowSum<kDim>& sum,
                                              int partial, int head, int lane) {
  // Lanes of adjacent dimensions swap the sums of their two heads, so that each stores one head.
  const int t = lane & 3;
  const bool second = (lane >> 2 & 1) != 0;
  const int own_head = 2 * t + (second ? 1 : 0);
  float* const to = partial_at(args, partial, head);
#pragma unroll
  for (int m = 0; m < kDim / 16; ++m) {
    const float(&out)[4] = sum.out[m];
    const float low = __shfl_xor_sync(~0u, second ? out[0] : out[1], 4);
    const float high = __shfl_xor_sync(~0u, second ? out[2] : out[3], 4);
    if (own_head < args.row_columns) {
      store_through_l2(to + own_head * kDim + m * 16 + (lane >> 3) * 4,
                       make_float4(second ? low : out[0], second ? out[1] : low,
                                   second ? high : out[2], second ? out[3] : high));
    }
  }
  if (lane < 4 && 2 * t < args.row_columns) {
    store_through_l2(
        to + args.row_columns * kDim + lane * 4,
        make_float4(sum.max_score[0], sum.exp_sum[0], sum.max_score[1], sum.exp_sum[1]));
  }
}

// Stores a lane's outputs: dimensions `dims` + g and `dims` + g + 8 of heads 2t and 2t + 1 of the
// part (g = lane / 4, t = lane % 4).
__device__ __forceinline__ void store_attended(const AttentionArgs& args, int row_idx, int head,
                                               int dims, const float (&out)[4],
                                               const float (&exp_sum)[2], int lane) {
  const int part = head % args.parts;
  const int heads = min(args.group_heads - part * 8, 8);
  const int first_head = head / args.parts * args.group_heads + part * 8;
  float attended[4] = {out[0], out[1], out[2], out[3]};
  divide_all(attended, {exp_sum[0], exp_sum[1], exp_sum[0], exp_sum[1]});
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int own_head = (lane & 3) * 2 + (i & 1);
    const int dim = dims + (lane >> 2) + (i >> 1) * 8;
    if (own_head < heads && dim < args.head_dim) {
      args.attended[row_idx * args.attended_stride + (first_head + own_head) * args.head_dim +
                    dim] = round_activation(args.attended_format, attended[i]);
    }
  }
}

// Store one of a lane's columns, g (`half` 0) or g + 8 (`half` 1), as head `own_head` of a partial
// result: first its sums of values, then its largest score and its sum of exponentials.
template <int kDim>
__device__ __forceinline__ void store_partial_values(const AttentionArgs& args,
                                                     const float (&out)[kDim / 8][4], int half,
                                                     int partial, int head, int own_head,
                                                     int lane) {
  float* const to = partial_at(args, partial, head);
#pragma unroll
  for (int m = 0; m < kDim / 16; ++m) {
    const float(&low)[4] = out[2 * m];
    const float(&high)[4] = out[2 * m + 1];
    store_through_l2(to + own_head * kDim + m * 16 + (lane & 3) * 4,
                     make_float4(half == 0 ? low[0] : low[2], half == 0 ? low[1] : low[3],
                                 half == 0 ? high[0] : high[2], half == 0 ? high[1] : high[3]));
  }
}
template <int kDim>
__device__ __forceinline__ void store_partial_softmax(const AttentionArgs& args,
                                                      const ColumnSoftmax& sums, int half,
                                                      int partial, int head, int own_head,
                                                      int lane) {
  if ((lane & 3) != 0) return;
  store_pair_through_l2(partial_at(args, partial, head) + args.row_columns * kDim + own_head * 2,
                        sums.max_score[half], sums.exp_sum[half][0]);
}

// Returns the shared-memory bytes of one span while a warp merges it: the warp's dimensions of a
// head, `lane_dims` per lane, and 16 bytes that hold the head's largest score and sum of
// exponentials, later its factors.
constexpr int merge_bytes(int lane_dims) { return lane_dims * 32 * 4 + 16; }

// One head of one row; a warp merges its spans.
struct MergeTask {
  AttentionRowCuda row;
  int row_idx, kv_head, part, own_head;  // own_head: index of the head in its part
  int first_span, end_span;              // spans that have partial results
};
// Returns the first visible span of a row whose last visible position is `position`.
__device__ __forceinline__ int first_span_of(const AttentionArgs& args, int position) {
  const int first_seen = args.window > 0 ? max(position - args.window + 1, 0) : 0;
  return span_of(position, first_seen / kTilePositions);
}

// A warp's shared memory for merging: the values of `ahead` spans, then their sums.
template <int kLaneDims>
struct MergeStage {
  static constexpr int kPieces = kLaneDims * 8;  // 16-byte pieces of a span's values
  static constexpr int kSpans = 32 / kPieces;    // spans that one copy by all lanes covers
  uint32_t values, sums;

  __device__ __forceinline__ MergeStage(uint32_t own, int ahead)
      : values(own), sums(own + ahead * kPieces * 16) {}

  // Copies `count` spans. `from` and `sums_from` are the lane's addresses in the first of them.
  __device__ __forceinline__ void load(const AttentionArgs& args, const float* from,
                                       const float* sums_from, int count, int lane) const {
#pragma unroll 1
    for (int i = lane; i < count; i += 32) {
      copy_16_async(sums + i * 16, sums_from + (i - lane) * args.partial_floats, true);
    }
#pragma unroll 1
    for (int i = lane / kPieces; i < count; i += kSpans) {
      copy_16_async(values + i * (kPieces * 16) + lane % kPieces * 16, from, true);
      from += kSpans * args.partial_floats;
    }
  }
  // Replaces each span's largest score by its merge factors, and updates `max_score`, the largest
  // score of the earlier spans. Each lane holds one span of every 32; a prefix maximum over the
  // lanes gives the largest score before its span.
  __device__ __forceinline__ void find_factors(int own_head, int count, int lane,
                                               float& max_score) const {
    constexpr int kRounds = 3;  // interleaved, since each is a chain of shuffles
    for (int begin = 0; begin < count; begin += 32 * kRounds) {
      float2 of_span[kRounds];
      float top[kRounds];
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        const int i = begin + 32 * r + lane;
        of_span[r] = i < count ? load_shared_pair(sums + i * 16 + own_head % 2 * 8)
                               : make_float2(kMinusInfinity, 0.0f);
        top[r] = of_span[r].x;
      }
#pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2) {
#pragma unroll
        for (int r = 0; r < kRounds; ++r) {
          const float before = __shfl_up_sync(~0u, top[r], lanes);
          if (lane >= lanes) top[r] = fmaxf(top[r], before);
        }
      }
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        const int i = begin + 32 * r + lane;
        const float before = __shfl_up_sync(~0u, top[r], 1);
        const float2 factors =
            merge_factors(lane == 0 ? max_score : fmaxf(max_score, before), of_span[r].x);
        max_score = fmaxf(max_score, __shfl_sync(~0u, top[r], 31));
        if (i < count) {
          store_shared_16(sums + i * 16,
                          make_uint4(__float_as_uint(factors.x), __float_as_uint(factors.y),
                                     __float_as_uint(of_span[r].y), 0u));
        }
      }
    }
  }
  // Adds the spans to the lane's sums, in order.
  __device__ __forceinline__ void add(int count, int lane, float (&out)[kLaneDims],
                                      float& exp_sum) const {
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
      const uint4 span_softmax = load_shared_16(sums + i * 16);
      const float2 factors =
          make_float2(__uint_as_float(span_softmax.x), __uint_as_float(span_softmax.y));
      exp_sum = merged(exp_sum, __uint_as_float(span_softmax.z), factors);
      const uint32_t at = values + i * (kPieces * 16) + lane * (kLaneDims * 4);
      if constexpr (kLaneDims == 4) {
        const uint4 next = load_shared_16(at);
        out[0] = merged(out[0], __uint_as_float(next.x), factors);
        out[1] = merged(out[1], __uint_as_float(next.y), factors);
        out[2] = merged(out[2], __uint_as_float(next.z), factors);
        out[3] = merged(out[3], __uint_as_float(next.w), factors);
      } else if constexpr (kLaneDims == 2) {
        const float2 next = load_shared_pair(at);
        out[0] = merged(out[0], next.x, factors);
        out[1] = merged(out[1], next.y, factors);
      } else {
        out[0] = merged(out[0], __uint_as_float(load_shared_4(at)), factors);
      }
    }
  }
};

// Stores a lane's dimensions of a head, which it holds in the order of a partial result.
template <int kLaneDims>
__device__ __forceinline__ void store_merged(const AttentionArgs& args, const MergeTask& task,
                                             int first_dim, int lane, const float (&out)[kLaneDims],
                                             float exp_sum) {
  uint16_t* const to =
      args.attended + task.row_idx * args.attended_stride +
      (task.kv_head * args.group_heads + task.part * 8 + task.own_head) * args.head_dim;
  float attended[kLaneDims];
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) attended[i] = out[i];
  divide_all(attended, exp_sum);
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) {
    const int at = lane * kLaneDims + i;  // index in the stored order
    const int dim = first_dim + at / 16 * 16 + at % 16 / 4 * 2 + at % 4 / 2 * 8 + at % 2;
    if (dim < args.head_dim) {
      to[dim] = round_activation(args.attended_format, attended[i]);
    }
  }
}

// Merges the task's spans in order, for 32 * kLaneDims dimensions from `first_dim` on. `own` is the
// warp's shared memory, `ahead` times merge_bytes().
template <int kDim, int kLaneDims>
__device__ __forceinline__ void merge_partials(const AttentionArgs& args, const MergeTask& task,
                                               int first_dim, int lane, uint32_t own, int ahead) {
  constexpr int kPieces = MergeStage<kLaneDims>::kPieces;
  const float* const partial = partial_at(args, task.row.first_partial + task.first_span,
                                          task.kv_head * args.parts + task.part);
  const float* from = partial + lane / kPieces * args.partial_floats + task.own_head * kDim +
                      first_dim + lane % kPieces * 4;
  const float* sums_from =
      partial + lane * args.partial_floats + args.row_columns * kDim + task.own_head / 2 * 4;
  const MergeStage<kLaneDims> stage(own, ahead);
  float out[kLaneDims] = {};
  float max_score = kMinusInfinity;
  float exp_sum = 0.0f;
  for (int span = task.first_span; span < task.end_span; span += ahead) {
    const int count = min(ahead, task.end_span - span);
    stage.load(args, from, sums_from, count, lane);
    from += ahead * args.partial_floats;
    sums_from += ahead * args.partial_floats;
    copies_commit();
    copies_wait();
    __syncwarp();
    stage.find_factors(task.own_head, count, lane, max_score);
    __syncwarp();
    stage.add(count, lane, out, exp_sum);
    __syncwarp();  // before the next spans overwrite these
  }
  store_merged(args, task, first_dim, lane, out, exp_sum);
}

// Merges the block's share, one warp per slice of 32 * kLaneDims dimensions of a head. With
// `spread`, adjacent slices go to different SMs; otherwise they go to as few SMs as possible. A
// warp that has finished its items waits for other blocks while the other warps of its block still
// work.
template <int kDim, int kLaneDims>
__device__ __forceinline__ void merge_units(const AttentionArgs& args, uint32_t shared, int room,
                                            bool spread) {
  constexpr int kSlices = kDim / (32 * kLaneDims);  // slices per head
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int slices = args.step->num_rows * args.num_heads * kSlices;
  const int grid = static_cast<int>(gridDim.x);
  int warps = kWarps;  // warps that get slices
  while (spread && warps > 1 && (warps - 1) * grid >= slices) --warps;
  const int ahead = room / (warps * merge_bytes(kLaneDims));
  const int index = kWarps - 1 - warp;
  const int first = spread ? index * grid + static_cast<int>(blockIdx.x)
                           : static_cast<int>(blockIdx.x) * kWarps + index;
  if (first >= slices) meet();
  for (int slice = first; slice < slices; slice += grid * kWarps) {
    MergeTask task;
    task.row_idx = args.by_num_heads.divide(slice / kSlices);
    const int head = slice / kSlices - task.row_idx * args.num_heads;
    task.kv_head = args.by_group_heads.divide(head);
    task.part = (head - task.kv_head * args.group_heads) / 8;
    task.own_head = head - task.kv_head * args.group_heads - task.part * 8;
    task.row = step_data<AttentionRowCuda>(args.step, args.step->rows_offset)[task.row_idx];
    task.first_span = first_span_of(args, task.row.last_visible);
    task.end_span = num_spans(task.row.last_visible);
    const int heads = args.kv_heads * args.parts;
    const bool arrived = wait_acquire(
        args.arrivals + task.row.query_tile * heads + task.kv_head * args.parts + task.part,
        static_cast<uint32_t>(task.row.query_tile_items));
    if (slice == first) meet();  // the block's shared memory is free
    if (!arrived) {
      if (lane == 0) *args.failed = 1;
      return;
    }
    __syncwarp();
    merge_partials<kDim, kLaneDims>(args, task, slice % kSlices * (32 * kLaneDims), lane,
                                    shared + index * ahead * merge_bytes(kLaneDims), ahead);
  }
}

// Merges the block's share; all warps of the block call it. After a barrier of the block it uses
// `room` bytes of shared memory from `shared` on. With `everywhere`, every SM gets a share even if
// rows times heads exceed the SMs.
template <int kDim>
__device__ __forceinline__ void merge_share(const AttentionArgs& args, uint32_t shared, int room,
                                            bool everywhere) {
  const int grid = static_cast<int>(gridDim.x);
  const int heads = args.step->num_rows * args.num_heads;
  const bool spread = everywhere || heads <= grid;
  if (spread && heads * (kDim / 32) <= grid * kWarps) {
    merge_units<kDim, 1>(args, shared, room, spread);
  } else {
    merge_units<kDim, kDim == 64 ? 2 : 4>(args, shared, room, spread);
  }
}

#endif

}  // namespace forerun::cuda
