// The exchange of results between the blocks of a decode cluster
// (attention/cuda/decode_cluster.cu), and the barriers between the kernel's phases. Device code;
// only that kernel includes it.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/decode_cluster_args.h"
#include "kernels/cuda/divide.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A block's barriers, and the number of waits of a thread for each.
template <class Layout>
struct DecodeClusterBarriers {
  uint32_t shared;            // the block's shared memory
  uint32_t loaded = 0;        // tiles so far in the warpgroup's stage
  uint32_t other_loaded = 0;  // tiles so far in the other warpgroup's stage
  uint32_t received = 0;      // number of results received from the cluster

  // Initializes the barriers of every block; all threads of a cluster call it.
  __device__ __forceinline__ void init() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; ++i) barrier_init(of_tile(i), 1);
      barrier_init(shared + Layout::kReceivedBarrier, 1);
      barrier_init(shared + Layout::kReleaseBarrier, kDecodeClusterBlocks * kDecodeClusterWarps);
      barrier_init_fence();
    }
    __syncthreads();
    cluster_arrive_relaxed();
    cluster_wait();
  }
  __device__ __forceinline__ uint32_t of_tile(int stage) const {
    return shared + Layout::kBarriers + stage * 8;
  }
  // Waits for the next tile of the warpgroup's own stage.
  __device__ __forceinline__ void wait_for_tile(int warpgroup) {
    barrier_wait(of_tile(warpgroup), loaded++ & 1);
  }
  // Waits for the tail's tile, the only one of this item that is loaded into `stage`.
  __device__ __forceinline__ void wait_for_tail(int stage, int warpgroup) const {
    barrier_wait(of_tile(stage), (stage == warpgroup ? loaded : other_loaded) & 1);
  }
  // Announces that the warp reads no more keys.
  __device__ __forceinline__ void release_keys(int lane) const {
    __syncwarp();
    if (lane < kDecodeClusterBlocks)
      arrive_at_peer(peer_address(shared + Layout::kReleaseBarrier, lane));
  }
  // Waits until no warp of the cluster reads keys, so that results may take their place.
  __device__ __forceinline__ void wait_for_released_keys() const {
    barrier_wait(shared + Layout::kReleaseBarrier, received & 1);
    __syncwarp();  // all lanes do the rest together
  }
  // Announces the expected bytes, for `columns` columns, counted once per span. One thread calls
  // it.
  __device__ __forceinline__ void expect_results(int columns) const {
    barrier_arrive_expect_tx(shared + Layout::kReceivedBarrier,
                             static_cast<uint32_t>(columns * (Layout::kSliceBytes + 8)));
  }
  __device__ __forceinline__ void wait_for_results() {
    barrier_wait(shared + Layout::kReceivedBarrier, received++ & 1);
    __syncwarp();
  }
  // Counts the tiles that the thread has not waited for: the tail's, if there is one, and those of
  // the other warpgroup's span.
  __device__ __forceinline__ void count_tiles(uint32_t tail_tiles, bool tail_is_own,
                                              uint32_t other_tiles) {
    loaded += tail_is_own ? tail_tiles : 0u;
    other_loaded += other_tiles + (tail_is_own ? 0u : tail_tiles);
  }
};

// Sends 32 dimensions, from 32 * part on, of a column's result of a span to the blocks that merge
// them. `half`: 0 for the lane's column g, 1 for column g + 8, where g = lane / 4 and t = lane % 4.
// Dimensions are stored in the order in which lanes hold them: the 16 (or 8) of a block are four
// times 2t, 2t + 1, 8 + 2t, 9 + 2t.
template <class Layout>
__device__ __forceinline__ void send(const float (*out)[4], int half, int part, uint32_t shared,
                                     int span, int column, int lane) {
  constexpr int kRanks = 32 * kDecodeClusterBlocks / Layout::kDim;
  const uint32_t barrier = shared + Layout::kReceivedBarrier;
  const uint32_t target = shared + Layout::kReceived +
                          (span * Layout::kColumns + column) * Layout::kSliceBytes +
                          (lane & 3) * (Layout::kSliceBytes / 4);
#pragma unroll
  for (int i = 0; i < kRanks; ++i) {
    const auto rank = static_cast<uint32_t>(part * kRanks + i);
    if constexpr (Layout::kDim == 128) {
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
// Sends a column's largest score and sum of exponentials of a span to all blocks.
template <class Layout>
__device__ __forceinline__ void send_sums(const ColumnSoftmax& sums, int half, uint32_t shared,
                                          int span, int column, int lane) {
  const uint32_t target = shared + Layout::kReceivedSums + (span * Layout::kColumns + column) * 8;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const auto rank = static_cast<uint32_t>((lane & 3) + 4 * i);
    store_peer_8(peer_address(target, rank), peer_address(shared + Layout::kReceivedBarrier, rank),
                 sums.max_score[half], sums.exp_sum[half][0]);
  }
}

// Merges all spans of two neighbouring dimensions of a column, in ascending order.
template <class Layout>
__device__ __forceinline__ float2 merge_received(uint32_t shared, int column, int pair, int first,
                                                 int end) {
  float2 out = make_float2(0.0f, 0.0f);
  float max_score = kMinusInfinity;
  float exp_sum = 0.0f;
#pragma unroll 4
  for (int span = first; span < end; ++span) {
    const int place = span * Layout::kColumns + column;
    const float2 next =
        load_shared_pair(shared + Layout::kReceived + place * Layout::kSliceBytes + pair * 8);
    const float2 sums = load_shared_pair(shared + Layout::kReceivedSums + place * 8);
    const float2 factors = merge_factors(max_score, sums.x);
    max_score = fmaxf(max_score, sums.x);
    exp_sum = merged(exp_sum, sums.y, factors);
    out.x = merged(out.x, next.x, factors);
    out.y = merged(out.y, next.y, factors);
  }
  float quotients[2] = {out.x, out.y};
  divide_all(quotients, exp_sum);
  return make_float2(quotients[0], quotients[1]);
}

#endif

}  // namespace forerun::cuda
