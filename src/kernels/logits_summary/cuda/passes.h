// The passes of logits_summary/cuda/logits_summary.cu over a row. Device code; only the kernel
// includes it.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "base/token_weight.h"
#include "device/cuda/peer_mailboxes_device.h"
#include "kernels/logits_summary/cuda/gumbel.h"
#include "kernels/logits_summary/cuda/row_edits.h"
#include "kernels/logits_summary/cuda/share.h"

namespace forerun::cuda::logits_summary {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

namespace cg = cooperative_groups;

// The passes over a row. All threads of a cluster call the same passes in the same order.
class RowPasses {
 public:
  // `logits` is dynamic shared memory, for the block's share of the row.
  __device__ RowPasses(const Arguments& arguments, const RowQuery& query, int row, float* logits,
                       Shared& shared)
      : peers_(arguments.peers),
        senders_(arguments.call.senders),
        query_(query),
        shared_(shared),
        rank_(static_cast<int>(cluster_.block_rank())),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        first_token_(arguments.call.first_token) {
    const LogitsSummaryCallCuda& call = arguments.call;
    const int32_t live = min(call.tokens, max(query.vocab - call.first_token, 0));
    const auto thread = static_cast<int>(threadIdx.x);
    quads_ = {shared_address(logits) + 16 * threadIdx.x, arguments.num_quads, live,
              4 * (rank_ * kThreads + thread)};
    quads_.request(call.logits + row * call.stride);
    if (query.edits != RowQuery::kNone) {
      const RowEditing editing(arguments, shared.edits, logits, live, rank_, shared.mask);
      editing.request_mask();
      copies_wait();
      editing.apply();
    }
  }

  __device__ void find_best() {
    copies_wait();
    bool bad = false;
    own_ = {-kInfinity, 0x7fffffff};
    for (int quad = 0; quad < quads_.count; ++quad) {
      float values[4];
      quads_.load(quad, values);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        bad |= !(values[i] < kInfinity);
        if (values[i] > own_.logit) own_ = {values[i], first_token_ + quads_.token(quad) + i};
      }
    }
    const TokenLogit best = best_of_warp(own_);
    if (lane_ == 0) shared_.warp_best[warp_] = best;
    const bool block_bad = __syncthreads_or(bad ? 1 : 0) != 0;
    cluster_wait();  // other blocks have started: this block writes to their shared memory from
                     // here on
    if (warp_ == 0) {
      Told told = {best_of_warp(shared_.warp_best[lane_]), 0.0f, block_bad ? 1 : 0};
      // The noisy scores of the blocks' best tokens rule out most other tokens.
      if (wants(RowQuery::kNoise)) told.noise = gumbel_estimate(noise_of(told.best.token));
      if (lane_ < kBlocks) cluster_.map_shared_rank(&shared_, lane_)->told[rank_] = told;
    }
    cluster_.sync();
    const Told told = shared_.told[lane_ % kBlocks];
    bad_ = __any_sync(~0u, told.bad != 0) != 0;
    best_ = best_of_warp(told.best);
    const float sum = (told.best.logit - best_.logit) * query_.inv_temperature + told.noise;
    floor_ = largest_of_warp(told.best.logit > -kInfinity ? sum : -kInfinity) - kNoiseMargin;
    origin_ = best_.logit;
  }

  // Makes the largest logit of the whole row, over all GPUs, the origin of weights. Every block
  // exchanges a word with the block of the same rank on each of the other GPUs.
  __device__ void meet_peers(int row) {
    if (peers_.degree == 0 || !wants(kSums)) return;
    if (warp_ == 0) {
      const int64_t word = int64_t{row} * kBlocks + rank_;
      const bool takes_part = lane_ < peers_.degree && (senders_ >> lane_ & 1) != 0;
      float largest = best_.logit;
      if (takes_part) {
        store_mailbox(peers_.send[lane_] + word, make_uint4(__float_as_uint(largest), 0, 0, 0));
        uint4* const from = peers_.received + lane_ * peers_.slot_words + word;
        PeerWait wait;
        uint4 v = load_mailbox(from);
        while (!has_arrived(v) && wait.more(peers_, lane_)) v = load_mailbox(from);
        largest = __uint_as_float(v.x);
        store_mailbox(from, make_uint4(kNotArrived, kNotArrived, kNotArrived, kNotArrived));
        finish_collecting(peers_);
      }
      __syncwarp();
      largest = largest_of_warp(largest);
      if (lane_ == 0) shared_.origin = largest;
    }
    __syncthreads();
    origin_ = shared_.origin;
  }

  __device__ bool done() const {
    return bad_ || best_.logit == -kInfinity ||
           ((query_.kinds & (RowQuery::kNoise | kSums)) == 0 && query_.top <= 0);
  }

  // Sums weights, finds candidates, and determines how deep the list must go.
  __device__ void sum() {
    const bool lists = query_.top > 0;
    if (lists) {
      own_rank_ = wants(RowQuery::kNoisyTop) ? largest_noisy_score() : own_.logit;
      if (own_.logit > -kInfinity) atomicAdd(&shared_.histogram[list_bucket(own_rank_)], 1);
    }
    unsigned long long weights[2] = {0, 0};
    if (wants(RowQuery::kNoise | kSums)) {
      for (int quad = 0; quad < quads_.count; ++quad) {
        float values[4];
        quads_.load(quad, values);
        sum_quad(quads_.token(quad), values, weights);
      }
      const float largest = largest_of_warp(largest_.sums[0]);
      const unsigned long long sums[2] = {sum_of_warp(weights[0]), sum_of_warp(weights[1])};
      if (lane_ == 0) {
        shared_.warp_largest[warp_] = largest;
        shared_.warp_sums[0][warp_] = sums[0];
        shared_.warp_sums[1][warp_] = sums[1];
      }
    }
    __syncthreads();
    if (lists) {
      // The first kBuckets threads (8 warps) send to the cluster's first block, the next to the
      // second, ...
      constexpr int kAtOnce = kThreads / kBuckets;
      const int bucket = static_cast<int>(threadIdx.x) % kBuckets;
      const int count = shared_.histogram[bucket];
      for (int block = static_cast<int>(threadIdx.x) / kBuckets; block < kBlocks;
           block += kAtOnce) {
        cluster_.map_shared_rank(&shared_, block)->histograms[rank_][bucket] = count;
      }
    }
    if (wants(RowQuery::kNoise | kSums)) tell_sums();
    cluster_.sync();
    if (lists) find_last_bucket();
  }

  // Appends this thread's tokens to the list in the cluster's first block.
  __device__ void list() {
    if (query_.top <= 0 || own_.logit == -kInfinity || !is_listed(own_rank_)) return;
    Shared* const first = cluster_.map_shared_rank(&shared_, 0);
    for (int quad = 0; quad < quads_.count; ++quad) {
      float values[4];
      quads_.load(quad, values);
      uint32_t noise[4] = {};
      if (wants(RowQuery::kNoisyTop)) noise_of_tokens(quads_.token(quad), noise);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!(values[i] > -kInfinity)) continue;
        const float rank =
            wants(RowQuery::kNoisyTop) ? score_of(values[i]) + gumbel_guess(noise[i]) : values[i];
        if (!is_listed(rank)) continue;
        const int slot = atomicAdd(&first->num_listed, 1);
        if (slot < LogitsSummary::kMaxListed) {
          first->listed[slot] = {values[i], first_token_ + quads_.token(quad) + i};
        }
      }
    }
  }

  // Writes the summary. The cluster's first block calls it.
  __device__ void write(bool summed, LogitsSummary* summary) {
    const bool lists = summed && query_.top > 0;
    const bool too_many = (lists && shared_.last_bucket == kTooManyThreads) ||
                          shared_.num_listed > LogitsSummary::kMaxListed;
    const int listed = too_many ? -1 : shared_.num_listed;
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kThreads) {
      summary->listed[i] = shared_.listed[i];
    }
    if (warp_ != 0) return;
    const bool noise = summed && wants(RowQuery::kNoise);
    const int candidates = noise ? write_candidates(summary) : 0;
    const auto& told = shared_.told_first[lane_ % kBlocks];
    const bool counts = summed && lane_ < kBlocks;
    const unsigned long long weights =
        sum_of_warp(counts && wants(RowQuery::kWeights) ? told.sums[0] : 0);
    const unsigned long long raw_weights =
        sum_of_warp(counts && wants(RowQuery::kRawWeights) ? told.sums[1] : 0);
    if (lane_ != 0) return;
    const bool any = best_.logit > -kInfinity;
    summary->best = {best_.logit, any ? best_.token : -1};
    summary->bad = bad_ ? 1 : 0;
    summary->num_listed = listed;
    summary->lists_all =
        !any || (lists && listed >= 0 && shared_.last_bucket == kBuckets - 1) ? 1 : 0;
    summary->by_noise = lists && wants(RowQuery::kNoisyTop) ? 1 : 0;
    summary->num_candidates = candidates;
    summary->has_weights = 1;
    summary->weight_origin = origin_;
    summary->weights = weights;
    summary->raw_weights = raw_weights;
  }

 private:
  __device__ __forceinline__ bool wants(uint32_t kinds) const {
    return (query_.kinds & kinds) != 0;
  }
  __device__ __forceinline__ uint32_t noise_of(int32_t token) const {
    const uint4 words = noise_of_quad(query_, token);
    const int word = token % 4;
    return word == 0 ? words.x : word == 1 ? words.y : word == 2 ? words.z : words.w;
  }

  __device__ __forceinline__ void noise_of_tokens(int32_t begin, uint32_t (&bits)[4]) const {
    const uint4 words = noise_of_quad(query_, first_token_ + begin);
    bits[0] = words.x;
    bits[1] = words.y;
    bits[2] = words.z;
    bits[3] = words.w;
  }
  __device__ __forceinline__ float score_of(float logit) const {
    return (logit - best_.logit) * query_.inv_temperature;
  }

  // Returns the largest noisy score of the thread's tokens.
  __device__ float largest_noisy_score() const {
    float largest = -kInfinity;
    for (int quad = 0; quad < quads_.count; ++quad) {
      float values[4];
      uint32_t bits[4];
      quads_.load(quad, values);
      noise_of_tokens(quads_.token(quad), bits);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        largest = fmaxf(largest, score_of(values[i]) + gumbel_guess(bits[i]));
      }
    }
    return largest;
  }

  // Returns the bucket of a token in the list's ranking. Buckets go down from the row's largest
  // logit or, with kNoisyTop, from an upper bound of all noisy scores. The lower the temperature,
  // the further apart noisy scores lie, and the wider their buckets are. A bucket of noisy scores
  // is at least half a unit wide, since all other tokens lie far below a token that is almost
  // certain.
  __device__ __forceinline__ int list_bucket(float rank) const {
    if (!wants(RowQuery::kNoisyTop)) return bucket_of(rank, best_.logit);
    const float scale = 0.25f * fminf(1.0f, 1.0f / query_.inv_temperature);
    return bucket_of(scale * (rank - kMaxGumbel), 0.0f);
  }
  // Returns whether a token is listed. kNoisyTop has a margin, so that the list contains every
  // token that the host's logarithms would put among the best.
  __device__ __forceinline__ bool is_listed(float rank) const {
    const float margin = wants(RowQuery::kNoisyTop) ? kListMargin : 0.0f;
    return list_bucket(rank + margin) <= shared_.last_bucket;
  }

  __device__ __forceinline__ void sum_quad(int32_t begin, const float (&values)[4],
                                           unsigned long long (&weights)[2]) {
    float scores[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[i] = score_of(values[i]);
      const float depth = values[i] - origin_;
      if (wants(RowQuery::kWeights)) {
        weights[0] += fixed_token_weight(token_weight(depth * query_.inv_temperature));
      }
      if (wants(RowQuery::kRawWeights)) weights[1] += fixed_token_weight(token_weight(depth));
    }
    if (!wants(RowQuery::kNoise)) return;
    const float best = fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3]));
    if (!__any_sync(~0u, best >= floor_ - kMaxGumbel)) return;
    uint32_t bits[4];
    noise_of_tokens(begin, bits);
    bool found = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!(scores[i] + noise_bound(bits[i]) >= floor_)) continue;
      largest_.offer(scores[i] + gumbel_estimate(bits[i]), {values[i], first_token_ + begin + i});
      found = true;
    }
    // The lanes of a warp share the largest sum found.
    if (!__any_sync(~0u, found)) return;
    floor_ = fmaxf(floor_, largest_of_warp(largest_.sums[0]) - kNoiseMargin);
  }

  // Sends the block's sums of weights, its largest noisy score and the candidates near it to the
  // first block.
  __device__ void tell_sums() {
    const float largest = largest_of_warp(shared_.warp_largest[lane_]);
    if (wants(RowQuery::kNoise) && largest > -kInfinity) {
      const float floor = largest - kNoiseMargin;
      if (largest_.sums[2] >= floor) {
        atomicAdd(&shared_.num_candidates, LogitsSummary::kMaxCandidates);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (!(largest_.sums[i] >= floor)) continue;
        const int slot = atomicAdd(&shared_.num_candidates, 1);
        if (slot < LogitsSummary::kMaxCandidates) shared_.candidates[slot] = largest_.tokens[i];
      }
    }
    __syncthreads();
    if (warp_ != 0) return;
    const unsigned long long sums[2] = {sum_of_warp(shared_.warp_sums[0][lane_]),
                                        sum_of_warp(shared_.warp_sums[1][lane_])};
    ToldFirst& told = cluster_.map_shared_rank(&shared_, 0)->told_first[rank_];
    if (lane_ < min(shared_.num_candidates, LogitsSummary::kMaxCandidates)) {
      told.candidates[lane_] = shared_.candidates[lane_];
    }
    if (lane_ != 0) return;
    told.sums[0] = sums[0];
    told.sums[1] = sums[1];
    told.largest = largest;
    told.num_candidates = shared_.num_candidates;
  }

  // Writes the candidates of the blocks whose largest noisy score is near the row's. Returns their
  // number, or -1 if there are too many.
  __device__ int write_candidates(LogitsSummary* summary) {
    const float of_block = shared_.told_first[lane_ % kBlocks].largest;
    const float floor = largest_of_warp(of_block) - kNoiseMargin;
    int count = 0;
    for (int block = 0; block < kBlocks; ++block) {
      const ToldFirst& told = shared_.told_first[block];
      if (!(told.largest >= floor)) continue;
      if (count + told.num_candidates > LogitsSummary::kMaxCandidates) return -1;
      if (lane_ < told.num_candidates) summary->candidates[count + lane_] = told.candidates[lane_];
      count += told.num_candidates;
    }
    return count;
  }

  // Finds the first bucket that, together with the buckets above it, contains the best tokens of
  // query.top threads; if there is none, the last bucket. Each of these threads would list at least
  // one token, so if there are more threads than a list holds, no thread lists anything.
  __device__ void find_last_bucket() {
    if (threadIdx.x < kBuckets) {
      int total = 0;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) total += shared_.histograms[block][threadIdx.x];
      shared_.total[threadIdx.x] = total;
    }
    __syncthreads();
    if (warp_ == 0) scan_buckets();
    __syncthreads();
  }

  __device__ void scan_buckets() {
    constexpr int kEach = kBuckets / 32;
    int counts[kEach];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) sum += counts[i] = shared_.total[lane_ * kEach + i];
    int before = sum;  // becomes the sum of the lanes before this one
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(~0u, before, distance);
      if (lane_ >= distance) before += other;
    }
    before -= sum;
    int last = kBuckets - 1;
#pragma unroll
    for (int i = kEach - 1; i >= 0; --i) {
      // Proceeds downwards, so that the first bucket is kept.
      int reached = before;
#pragma unroll
      for (int j = 0; j <= i; ++j) reached += counts[j];
      if (reached >= query_.top) last = lane_ * kEach + i;
    }
    last = __reduce_min_sync(~0u, last);
    int threads = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) threads += lane_ * kEach + i <= last ? counts[i] : 0;
    threads = __reduce_add_sync(~0u, threads);
    if (lane_ == 0) {
      shared_.last_bucket = threads > LogitsSummary::kMaxListed ? kTooManyThreads : last;
    }
  }

  const PeerMailboxes& peers_;
  uint32_t senders_;
  const RowQuery& query_;
  Shared& shared_;
  cg::cluster_group cluster_ = cg::this_cluster();
  int rank_;
  int warp_;
  int lane_;
  int32_t first_token_;
  Quads quads_;
  TokenLogit own_;   // the thread's token with the largest logit
  float own_rank_;   // the thread's largest rank in the list's order
  TokenLogit best_;  // the row's token with the largest logit
  float origin_;     // origin of weights
  bool bad_;
  float floor_;  // noisy scores below it cannot be the largest
  LargestSums largest_;
};

#endif

}  // namespace forerun::cuda::logits_summary
