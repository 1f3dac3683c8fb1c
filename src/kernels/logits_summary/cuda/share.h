// The shares of a row of a thread, a block and a cluster of logits_summary/cuda/logits_summary.cu.
// Device code; only the kernel includes it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "base/noise.h"
#include "device/cuda/peer_mailboxes.h"
#include "kernels/cuda/ptx.h"
#include "kernels/logits_summary/cuda/logits_summary.h"

namespace forerun::cuda::logits_summary {

constexpr int kThreads = 1024;
constexpr int kBlocks = 8;  // blocks per cluster
constexpr int kQuadBytes = 16 * kThreads;
constexpr int kMaxQuads = 12;  // quads per thread that fit in shared memory

// The kernel's arguments.
struct Arguments {
  LogitsSummaryCallCuda call;
  PeerMailboxes peers;  // degree 0 without peers
  int num_quads;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

constexpr int kWarps = kThreads / 32;
constexpr int kBuckets = 256;
constexpr int kTooManyThreads = -1;  // replaces a bucket: above all, so that none is listed
constexpr uint32_t kSums = RowQuery::kWeights | RowQuery::kRawWeights;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The message of a block to every block.
struct Told {
  TokenLogit best;
  float noise;  // noise of the best token
  int bad;
};
// The message of a block to the first block.
struct ToldFirst {
  unsigned long long sums[2];
  float largest;
  int num_candidates;
  TokenLogit candidates[LogitsSummary::kMaxCandidates];
};

// The part of a mask for a block: for each quad index, the chunks of 128 bits that contain the bits
// of its 4 * kThreads tokens.
constexpr int kMaskChunks = 4 * kThreads / 128 + 1;
struct MaskShare {
  uint32_t words[kMaxQuads][4 * kMaskChunks];
};

struct Shared {
  TokenLogit warp_best[kWarps];
  unsigned long long warp_sums[2][kWarps];
  float warp_largest[kWarps];
  int histogram[kBuckets];
  int num_candidates;
  TokenLogit candidates[LogitsSummary::kMaxCandidates];
  int total[kBuckets];
  int last_bucket;  // last bucket with listed tokens
  float origin;
  // Indexed by block of the cluster.
  Told told[kBlocks];
  int histograms[kBlocks][kBuckets];
  // Only the first block uses this.
  ToldFirst told_first[kBlocks];
  int num_listed;
  TokenLogit listed[LogitsSummary::kMaxListed];
  RowEditsCuda edits;
  alignas(16) MaskShare mask;
};

__device__ __forceinline__ bool comes_before(const TokenLogit& a, const TokenLogit& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

__device__ __forceinline__ TokenLogit best_of_warp(TokenLogit best) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const TokenLogit other = {__shfl_xor_sync(~0u, best.logit, distance),
                              __shfl_xor_sync(~0u, best.token, distance)};
    if (comes_before(other, best)) best = other;
  }
  return best;
}

__device__ __forceinline__ float largest_of_warp(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
  }
  return value;
}

__device__ __forceinline__ unsigned long long sum_of_warp(unsigned long long value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(~0u, value, distance);
  }
  return value;
}

__device__ __forceinline__ uint4 noise_of_quad(const RowQuery& query, int32_t token) {
  const auto words =
      philox({static_cast<uint32_t>(token) / 4, static_cast<uint32_t>(query.position),
              static_cast<uint32_t>(NoiseStream::kTarget), 0x464f5245u},
             {query.seed_low, query.seed_high});
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Returns the bucket of a logit: buckets are steps of 1/8 below the largest logit; the last bucket
// takes the rest.
__device__ __forceinline__ int bucket_of(float logit, float largest) {
  const float depth = (largest - logit) * 8.0f;
  return depth < static_cast<float>(kBuckets - 1) ? static_cast<int>(depth) : kBuckets - 1;
}

// A thread's share of a row: quads (4 tokens) in shared memory, distributed round-robin over the
// threads of the cluster.
struct Quads {
  uint32_t address;  // address of the first quad; the others follow kThreads quads apart
  int32_t count;
  int32_t tokens;  // tokens of the row
  int32_t first;   // token of the first quad
  static constexpr int32_t kStep = 4 * kBlocks * kThreads;

  __device__ __forceinline__ int32_t token(int quad) const { return first + quad * kStep; }
  __device__ __forceinline__ void request(const float* logits) const {
    for (int quad = 0; quad < count; ++quad) {
      const bool there = token(quad) < tokens;
      copy_16_async(address + quad * kThreads * 16, logits + (there ? token(quad) : 0), there);
    }
    copies_commit();
  }
  // Loads the logits of a quad. Tokens past the end are masked.
  __device__ __forceinline__ void load(int quad, float (&values)[4]) const {
    const uint4 v = load_shared_16(address + quad * kThreads * 16);
    const int32_t begin = token(quad);
    values[0] = begin < tokens ? __uint_as_float(v.x) : -kInfinity;
    values[1] = begin + 1 < tokens ? __uint_as_float(v.y) : -kInfinity;
    values[2] = begin + 2 < tokens ? __uint_as_float(v.z) : -kInfinity;
    values[3] = begin + 3 < tokens ? __uint_as_float(v.w) : -kInfinity;
  }
};

// Returns the address of the logit of column `column` of the part in the shared memory of block
// `rank`, which begins at `logits`. Null if the logit belongs to another block or lies past the
// `live` columns.
__device__ __forceinline__ float* place_of(float* logits, int64_t column, int32_t live, int rank) {
  if (column < 0 || column >= live) return nullptr;
  const int quad = static_cast<int>(column) / 4;
  if (quad / kThreads % kBlocks != rank) return nullptr;
  const int number = quad / (kThreads * kBlocks);
  return logits + 4 * (number * kThreads + quad % kThreads) + column % 4;
}

// The two largest sums of a thread with their tokens; the third largest tells whether there are
// more candidates.
struct LargestSums {
  float sums[3] = {-kInfinity, -kInfinity, -kInfinity};
  TokenLogit tokens[2];

  __device__ __forceinline__ void offer(float sum, TokenLogit token) {
    if (sum > sums[0]) {
      sums[2] = sums[1];
      sums[1] = sums[0];
      tokens[1] = tokens[0];
      sums[0] = sum;
      tokens[0] = token;
    } else if (sum > sums[1]) {
      sums[2] = sums[1];
      sums[1] = sum;
      tokens[1] = token;
    } else {
      sums[2] = fmaxf(sums[2], sum);
    }
  }
};

#endif

}  // namespace forerun::cuda::logits_summary
