// Partial results of the attention kernel (attention_rows_cuda.cu): stored through the L2, merged
// in the order of the spans, written as outputs. Device code; included by the kernel alone.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/attention_args_cuda.h"
#include "kernels/attention/attention_row_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <int kDim>
__device__ __forceinline__ void store_partial(const RowSum<kDim>& sum, float* partial, int lane) {
#pragma unroll
  for (int m = 0; m < kDim / 16; ++m) {
    store_through_l2(partial + (m * 32 + lane) * 4,
                     make_float4(sum.out[m][0], sum.out[m][1], sum.out[m][2], sum.out[m][3]));
  }
  if (lane < 4) {
    store_through_l2(partial + kDim * 8 + lane * 4,
                     make_float4(sum.most[0], sum.most[1], sum.weight[0], sum.weight[1]));
  }
}

// Dimensions g, g + 8 of 16, heads 2t, 2t + 1 of the part's heads.
__device__ __forceinline__ void store_attended(const AttentionArgs& args, int row_idx, int head,
                                               int dims, const float (&out)[4],
                                               const float (&weight)[2], int lane) {
  const int part = head % args.parts;
  const int heads = min(args.group_heads - part * 8, 8);
  const int first_head = head / args.parts * args.group_heads + part * 8;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int own_head = (lane & 3) * 2 + (i & 1);
    const int dim = dims + (lane >> 2) + (i >> 1) * 8;
    if (own_head < heads && dim < args.head_dim) {
      args.attended[row_idx * args.attended_stride + (first_head + own_head) * args.head_dim +
                    dim] = round_activation(args.attended_format, __fdiv_rn(out[i], weight[i & 1]));
    }
  }
}

// Of a span on its way to a warp: 16 dimensions of 8 heads; maxima and weights.
constexpr int kMergeBytes = 512 + 64;

// Merges 16 dimensions of one row's spans, in order. `own`: the warp's kMergeBytes * `ahead` of
// shared memory.
template <int kDim>
__device__ __forceinline__ void merge_partials(const AttentionArgs& args, int row_idx,
                                               const AttentionRowCuda& row, int head, int m,
                                               int lane, uint32_t own, int ahead) {
  const int first_seen = args.window > 0 ? max(row.position - args.window + 1, 0) : 0;
  const int first_span = span_of(row.position, first_seen / kTilePositions);
  const int spans = num_spans(row.position);
  const float* partial = args.partials + (row.first_partial + first_span) * args.partial_floats +
                         head * (kDim * 8 + 16);
  float out[4] = {};
  float most[2] = {kNothing, kNothing};
  float weight[2] = {};
  for (int span = first_span; span < spans; span += ahead) {
    const int count = min(ahead, spans - span);
    for (int i = 0; i < count; ++i) {
      const float* const from = partial + i * args.partial_floats;
      const uint32_t to = own + i * kMergeBytes;
      copy_16_async(to + lane * 16, from + (m * 32 + lane) * 4, true);
      if (lane < 4) copy_16_async(to + 512 + lane * 16, from + kDim * 8 + lane * 4, true);
    }
    partial += ahead * args.partial_floats;
    copies_commit();
    copies_wait();
    __syncwarp();
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const uint4 next = load_shared_16(own + i * kMergeBytes + lane * 16);
      const uint4 sums = load_shared_16(own + i * kMergeBytes + 512 + (lane & 3) * 16);
      const float next_out[4] = {__uint_as_float(next.x), __uint_as_float(next.y),
                                 __uint_as_float(next.z), __uint_as_float(next.w)};
      const float next_most[2] = {__uint_as_float(sums.x), __uint_as_float(sums.y)};
      const float next_weight[2] = {__uint_as_float(sums.z), __uint_as_float(sums.w)};
      float2 factors[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        factors[k] = merge_factors(most[k], next_most[k]);
        most[k] = fmaxf(most[k], next_most[k]);
        weight[k] = merged(weight[k], next_weight[k], factors[k]);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) out[k] = merged(out[k], next_out[k], factors[k & 1]);
    }
    __syncwarp();  // before the next overwrite them
  }
  store_attended(args, row_idx, head, m * 16, out, weight, lane);
}

#endif

}  // namespace forerun::cuda
