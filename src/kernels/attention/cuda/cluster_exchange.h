// How the blocks of a cluster tell one another what they found, in the cluster kernel of attention
// (attention/cuda/cluster.cu). Device code; included by the kernel alone.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/cluster_args.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Counts an arrival at a block of the cluster, address from peer_address(). Orders nothing: who
// arrives has used what it read. (The cluster's own barrier orders by a fence of the whole GPU, 3
// us, and empties the L1.)
__device__ __forceinline__ void arrive_at_peer(uint32_t barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _,[%0];" ::"r"(barrier)
               : "memory");
}

// Two floats into a block of the cluster, 8 bytes off its barrier.
__device__ __forceinline__ void store_peer_8(uint32_t address, uint32_t barrier, float x, float y) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0],{%1,%2},[%3];" ::"r"(
          address),
      "r"(__float_as_uint(x)), "r"(__float_as_uint(y)), "r"(barrier)
      : "memory");
}

// A column's result of a span, of 32 dimensions from 32 * part on, to the blocks that merge them.
// `half`: the lane's column g or g + 8. In the order in which lanes hold them: 16 (or 8) dimensions
// of a block are four times 2t, 2t + 1, 8 + 2t, 9 + 2t.
template <int kDim>
__device__ __forceinline__ void send(const float (*out)[4], int half, int part, uint32_t shared,
                                     int span, int column, int lane) {
  using Layout = ClusterLayout<kDim>;
  constexpr int kRanks = 32 * kClusterBlocks / kDim;
  const uint32_t barrier = shared + Layout::kReceivedBarrier;
  const uint32_t target = shared + Layout::kReceived +
                          (span * kClusterColumns + column) * Layout::kSliceBytes +
                          (lane & 3) * (Layout::kSliceBytes / 4);
#pragma unroll
  for (int i = 0; i < kRanks; ++i) {
    const auto rank = static_cast<uint32_t>(part * kRanks + i);
    if constexpr (kDim == 128) {
      const float(&low)[4] = out[2 * i];
      const float(&high)[4] = out[2 * i + 1];
      store_peer_16(peer_address(target, rank), peer_address(barrier, rank),
                    make_float4(half == 0 ? low[0] : low[2], half == 0 ? low[1] : low[3],
                                half == 0 ? high[0] : high[2], half == 0 ? high[1] : high[3]));
    } else {
      const float(&own)[4] = out[i];
      store_peer_8(peer_address(target, rank), peer_address(barrier, rank),
                   half == 0 ? own[0] : own[2], half == 0 ? own[1] : own[3]);
    }
  }
}
// And what belongs to all blocks.
template <int kDim>
__device__ __forceinline__ void send_sums(const ColumnSoftmax& sums, int half, uint32_t shared,
                                          int span, int column, int lane) {
  using Layout = ClusterLayout<kDim>;
  const uint32_t target = shared + Layout::kReceivedSums + (span * kClusterColumns + column) * 8;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const auto rank = static_cast<uint32_t>((lane & 3) + 4 * i);
    store_peer_8(peer_address(target, rank), peer_address(shared + Layout::kReceivedBarrier, rank),
                 sums.most[half], sums.exp_sum[half][0]);
  }
}

// Two neighbouring dimensions of a column, of all spans in ascending order.
template <int kDim>
__device__ __forceinline__ float2 merge_received(uint32_t shared, int column, int pair, int first,
                                                 int end) {
  using Layout = ClusterLayout<kDim>;
  float2 out = make_float2(0.0f, 0.0f);
  float most = kNothing;
  float exp_sum = 0.0f;
#pragma unroll 4
  for (int span = first; span < end; ++span) {
    const int place = span * kClusterColumns + column;
    const float2 next =
        load_shared_pair(shared + Layout::kReceived + place * Layout::kSliceBytes + pair * 8);
    const float2 sums = load_shared_pair(shared + Layout::kReceivedSums + place * 8);
    const float2 factors = merge_factors(most, sums.x);
    most = fmaxf(most, sums.x);
    exp_sum = merged(exp_sum, sums.y, factors);
    out.x = merged(out.x, next.x, factors);
    out.y = merged(out.y, next.y, factors);
  }
  return make_float2(__fdiv_rn(out.x, exp_sum), __fdiv_rn(out.y, exp_sum));
}

#endif

}  // namespace forerun::cuda
