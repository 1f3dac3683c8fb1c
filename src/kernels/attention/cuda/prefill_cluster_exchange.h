// The shared-memory layout of the prefill cluster kernel of attention
// (attention/cuda/prefill_cluster.cu), and the merge of the warpgroups' spans between the blocks of
// a cluster. Device code; only that kernel includes it.
//
// The warpgroups of a cluster take an item's spans in turn, one span each per round. A round's
// results go to all blocks, and each block merges its share of the dimensions of every column.
// Results travel while the warpgroups process the next round's tiles, and are merged before that
// round's results are sent: the receiving buffer is free once every warp of the cluster has merged.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/attention/cuda/plan.h"
#include "kernels/cuda/divide.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

constexpr int kPrefillClusterStages = 2;  // stages of a warpgroup's ring of tiles
constexpr int kPrefillClusterConsumers = kPrefillClusterWarpgroups * 128;  // threads
// Threads of a block: the consumers, then a warpgroup in which one warp fills each ring and, in
// fused kernels, two others append.
constexpr int kPrefillClusterThreads = kPrefillClusterConsumers + 128;
constexpr int kAppendingWarps = 2;

// Offsets are bytes from the beginning of a block's shared memory; operands of wgmma begin at
// multiples of 1,024. `kIsFused` is is_fused_prefill_cluster().
template <int kDimensions, int kClusterSize, bool kIsFused>
struct PrefillClusterLayout {
  static constexpr int kDim = kDimensions;
  static constexpr int kBlocks = kClusterSize;
  static constexpr bool kFused = kIsFused;
  static constexpr int kClusterWarpgroups = prefill_cluster_warpgroups(kBlocks);
  static constexpr int kStageBytes = 2 * tile_bytes(kDim);  // keys, then values
  static constexpr int kRingBytes = kPrefillClusterStages * kStageBytes;
  static constexpr int kQueries = kPrefillClusterWarpgroups * kRingBytes;  // panels of 64 columns

  // Each block merges this many dimensions of every column. A warpgroup's results arrive as 16-byte
  // pieces [kPieces][column][quarter]: the sums of lane `quarter` among the column's four lanes,
  // for the block's dimensions 16 * piece + 2 * quarter and the next, and for those 8 behind them.
  static constexpr int kShareDims = kDim / kBlocks;
  static constexpr int kPieces = kShareDims / 16;
  static_assert(kBlocks <= largest_prefill_cluster(kDim) && kShareDims % 16 == 0);
  static constexpr int kPieceBytes = 64 * 4 * 16;
  static constexpr int kWarpgroupBytes = kPieces * kPieceBytes;
  static constexpr int kReceived = kQueries + tile_bytes(kDim);  // [warpgroup]
  // [warpgroup][column]: the column's largest score and its sum of exponentials.
  static constexpr int kReceivedSums = kReceived + kClusterWarpgroups * kWarpgroupBytes;
  static constexpr int kWarpgroupSumBytes = 64 * 8;
  static constexpr int kColumnBytes =
      (kWarpgroupBytes + kWarpgroupSumBytes) / 64;  // a column of a warpgroup's results

  // Two barriers per stage: filled, free.
  static constexpr int kBarriers = kReceivedSums + kClusterWarpgroups * kWarpgroupSumBytes;
  static constexpr int kReceivedBarrier = kBarriers + kPrefillClusterWarpgroups *
                                                          kPrefillClusterStages *
                                                          16;  // a round's results have arrived
  static constexpr int kRoomBarrier =
      kReceivedBarrier + 8;  // a round's results are merged in every block
  // The step's visible keys and values of the item are in the cache.
  static constexpr int kAppendedBarrier = kRoomBarrier + 8;
  static constexpr int kBytes = kAppendedBarrier + 8;
  static_assert(kBytes <= 227 * 1024);

  __device__ __forceinline__ static uint32_t stage_at(uint32_t shared, int warpgroup, int stage) {
    return shared + warpgroup * kRingBytes + stage * kStageBytes;
  }
  __device__ __forceinline__ static uint32_t filled_at(uint32_t shared, int warpgroup, int stage) {
    return shared + kBarriers + (warpgroup * kPrefillClusterStages + stage) * 16;
  }
  __device__ __forceinline__ static uint32_t free_at(uint32_t shared, int warpgroup, int stage) {
    return filled_at(shared, warpgroup, stage) + 8;
  }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Initializes the barriers of every block; all threads of a cluster call it.
template <class Layout>
__device__ __forceinline__ void init_prefill_cluster_barriers(uint32_t shared) {
  if (threadIdx.x == 0) {
    for (int warpgroup = 0; warpgroup < kPrefillClusterWarpgroups; ++warpgroup) {
      for (int stage = 0; stage < kPrefillClusterStages; ++stage) {
        barrier_init(Layout::filled_at(shared, warpgroup, stage), 1);
        barrier_init(Layout::free_at(shared, warpgroup, stage), 4);
      }
    }
    barrier_init(shared + Layout::kReceivedBarrier, 1 + kPrefillClusterConsumers);
    barrier_init(shared + Layout::kRoomBarrier,
                 kPrefillClusterConsumers + (Layout::kBlocks - 1) * kPrefillClusterConsumers / 32);
    barrier_init(shared + Layout::kAppendedBarrier, 1);
    barrier_init_fence();
  }
  __syncthreads();
  cluster_arrive_relaxed();
  cluster_wait();
}

// A consumer's part of the exchange. Every consumer of the cluster takes part in every round.
template <class Layout>
struct PrefillClusterExchange {
  uint32_t shared;      // the block's shared memory
  int rank;             // the block's rank in the cluster
  int columns;          // columns to send: the item's, rounded up to whole warps of 16
  uint32_t rounds = 0;  // rounds sent so far

  // Begins a round in which `num_warpgroups` warpgroups send results, once every block has merged
  // the previous round.
  __device__ __forceinline__ void begin_round(int num_warpgroups) {
    barrier_wait(shared + Layout::kRoomBarrier, (rounds & 1) ^ 1);
    ++rounds;
    if (threadIdx.x == 0) {
      const int from_peers =
          num_warpgroups -
          min(max(num_warpgroups - rank * kPrefillClusterWarpgroups, 0), kPrefillClusterWarpgroups);
      barrier_arrive_expect_tx(shared + Layout::kReceivedBarrier,
                               static_cast<uint32_t>(from_peers * columns * Layout::kColumnBytes));
    }
    __syncwarp();
  }
  // Sends a warpgroup's span, its sums reduced over the lanes, to all blocks. `column` is the
  // lane's first. The block's own share does not pass through the cluster's network, whose
  // bandwidth of about 25 bytes per clock and SM limits the speed.
  __device__ __forceinline__ void send(const ColumnSums<Layout::kDim>& span, int cluster_warpgroup,
                                       int column) const {
    const int quarter = threadIdx.x & 3;
    const uint32_t barrier = shared + Layout::kReceivedBarrier;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = column + 8 * half;
      const uint32_t pieces = shared + Layout::kReceived +
                              cluster_warpgroup * Layout::kWarpgroupBytes + (at * 4 + quarter) * 16;
      const uint32_t sums =
          shared + Layout::kReceivedSums + cluster_warpgroup * Layout::kWarpgroupSumBytes + at * 8;
#pragma unroll
      for (int i = 0; i < Layout::kDim / 16; ++i) {
        const int to = i / Layout::kPieces;
        const uint32_t target = pieces + i % Layout::kPieces * Layout::kPieceBytes;
        const float(&low)[4] = span.out[2 * i];
        const float(&high)[4] = span.out[2 * i + 1];
        const float4 four =
            make_float4(low[2 * half], low[2 * half + 1], high[2 * half], high[2 * half + 1]);
        if (to == rank) {
          store_shared_16(target, make_uint4(__float_as_uint(four.x), __float_as_uint(four.y),
                                             __float_as_uint(four.z), __float_as_uint(four.w)));
        } else {
          store_peer_16(peer_address(target, static_cast<uint32_t>(to)),
                        peer_address(barrier, static_cast<uint32_t>(to)), four);
        }
      }
#pragma unroll
      for (int first = 0; first < Layout::kBlocks; first += 4) {
        const int to = first + quarter;
        if (to == rank) {
          store_shared_pair(sums, span.max_score[half], span.exp_sum[half][0]);
        } else if (to < Layout::kBlocks) {
          store_peer_8(peer_address(sums, static_cast<uint32_t>(to)),
                       peer_address(barrier, static_cast<uint32_t>(to)), span.max_score[half],
                       span.exp_sum[half][0]);
        }
      }
    }
  }
  // Announces that the thread has sent its results. Here and in end_round() every lane arrives at
  // its own block's barriers: racecheck, which analyzes each block's memory separately, does not
  // see that one lane arrives for those that it has met at __syncwarp() (docs/profiling-gpu.md).
  __device__ __forceinline__ void end_sending() const {
    barrier_arrive(shared + Layout::kReceivedBarrier);
  }
  // Waits for the results of the last round that has begun.
  __device__ __forceinline__ void wait_for_results() const {
    barrier_wait(shared + Layout::kReceivedBarrier, (rounds - 1) & 1);
    __syncwarp();
  }
  // Announces that the warp has merged the results: each lane to its own block, and one lane per
  // other block for the whole warp.
  __device__ __forceinline__ void end_round() const {
    barrier_arrive(shared + Layout::kRoomBarrier);
    __syncwarp();
    const uint32_t lane = threadIdx.x % 32;
    if (lane < Layout::kBlocks && lane != static_cast<uint32_t>(rank)) {
      arrive_at_peer(peer_address(shared + Layout::kRoomBarrier, lane));
    }
  }
};

// The share of one thread in the merge: a quarter of its block's dimensions of one column.
template <class Layout>
struct PrefillClusterShare {
  // Warpgroups whose results a thread loads at once: eight if it loads one piece of each.
  static constexpr int kMergedAtOnce = Layout::kPieces > 1 ? 2 : 8;

  float out[Layout::kPieces][4];
  float max_score, exp_sum;

  __device__ __forceinline__ static int column() { return static_cast<int>(threadIdx.x) / 4; }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int piece = 0; piece < Layout::kPieces; ++piece) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[piece][i] = 0.0f;
    }
    max_score = kMinusInfinity;
    exp_sum = 0.0f;
  }
  // Merges a round's spans into those before them, in ascending order.
  __device__ __forceinline__ void merge(uint32_t shared, int num_warpgroups) {
    const uint32_t pieces = shared + Layout::kReceived + threadIdx.x * 16;
    const uint32_t sums = shared + Layout::kReceivedSums + column() * 8;
#pragma unroll kMergedAtOnce
    for (int cluster_warpgroup = 0; cluster_warpgroup < num_warpgroups; ++cluster_warpgroup) {
      const float2 warpgroup_sums =
          load_shared_pair(sums + cluster_warpgroup * Layout::kWarpgroupSumBytes);
      const float2 factors = merge_factors(max_score, warpgroup_sums.x);
      max_score = fmaxf(max_score, warpgroup_sums.x);
      exp_sum = merged(exp_sum, warpgroup_sums.y, factors);
#pragma unroll
      for (int piece = 0; piece < Layout::kPieces; ++piece) {
        const uint4 next = load_shared_16(pieces + cluster_warpgroup * Layout::kWarpgroupBytes +
                                          piece * Layout::kPieceBytes);
        float(&own)[4] = out[piece];
        own[0] = merged(own[0], __uint_as_float(next.x), factors);
        own[1] = merged(own[1], __uint_as_float(next.y), factors);
        own[2] = merged(own[2], __uint_as_float(next.z), factors);
        own[3] = merged(own[3], __uint_as_float(next.w), factors);
      }
    }
  }
  // Stores the outputs. `head` is the start of the column's head in its row of outputs.
  __device__ __forceinline__ void store(const AttentionArgs& args, uint16_t* head, int rank) const {
    constexpr int kCount = Layout::kPieces * 4;
    float attended[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) attended[i] = out[i / 4][i % 4];
    divide_all(attended, exp_sum);
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const int dim = rank * Layout::kShareDims + i / 4 * 16 + i % 4 * 4 + 2 * (threadIdx.x & 3);
      if (dim >= args.head_dim) return;
      *reinterpret_cast<uint32_t*>(head + dim) =
          pack_activations(args.attended_format, attended[i], attended[i + 1]);
    }
  }
};

#endif

}  // namespace forerun::cuda
