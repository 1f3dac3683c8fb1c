// A cluster of blocks a row: it reads the row two or three times out of the L2 and meets three
// times through its shared memory.
//
//   1. best token, errors, each thread's own best;           meet: the row's best
//   2. weights; sums of score + noise, from a bound that needs no logarithm, and logarithms in f32
//      for those that reach the largest yet; a histogram of the threads' best, in eighths below the
//      row's;                                                meet: how deep the list must go, the
//                                                            largest sum
//   3. threads whose own best lies that deep list their tokens, and whose sums do nominate them
//
// The histogram counts threads, not tokens: that as many threads reach a depth as tokens are wanted
// means that as many tokens do, and costs one atomic a thread. A list is longer than asked for by
// the tokens that share a thread or the last eighth: about a tenth at 256 of 128,256.
#include <cooperative_groups.h>

#include <limits>

#include "base/noise.h"
#include "base/token_weight.h"
#include "kernels/launch_cuda.h"
#include "kernels/linear/ptx_cuda.h"
#include "kernels/row_digest/gumbel_cuda.h"
#include "kernels/row_digest/row_digest_cuda.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kBlocks = 8;  // of a cluster

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

namespace cg = cooperative_groups;

constexpr int kWarps = kThreads / 32;
constexpr int kBuckets = 256;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A block's share of the meetings.
struct Shared {
  TokenLogit warp_best[kWarps];
  unsigned long long warp_sums[2][kWarps];
  float warp_sum_of_noise[kWarps];
  // Of the block, for the cluster.
  TokenLogit best;
  int bad;
  float largest;
  unsigned long long sums[2];
  int histogram[kBuckets];
  // Of the row, for the block.
  TokenLogit row_best;
  int row_bad;
  float row_largest;
  float floor;
  int total[kBuckets];
  int last_bucket;
  // Of the row, in the cluster's first block.
  int num_listed;
  int num_nominees;
  TokenLogit nominees[RowDigest::kMostNominees];
  TokenLogit listed[RowDigest::kMostListed];
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

// Eighths below the largest logit; the last bucket takes the rest.
__device__ __forceinline__ int bucket_of(float logit, float largest) {
  const float depth = (largest - logit) * 8.0f;
  return depth < static_cast<float>(kBuckets - 1) ? static_cast<int>(depth) : kBuckets - 1;
}

// A thread's share of a row: quads of tokens, dealt out in turn over the cluster.
struct Quads {
  const float* logits;
  int32_t tokens;
  int32_t first;  // this thread's first quad, in tokens
  static constexpr int32_t kStep = 4 * kBlocks * kThreads;

  // Tokens past the end are masked.
  __device__ __forceinline__ void load(int32_t begin, float (&values)[4]) const {
    const float4 v = *reinterpret_cast<const float4*>(logits + begin);
    values[0] = v.x;
    values[1] = begin + 1 < tokens ? v.y : -kInfinity;
    values[2] = begin + 2 < tokens ? v.z : -kInfinity;
    values[3] = begin + 3 < tokens ? v.w : -kInfinity;
  }
};

// The two largest sums of a thread, and a third that tells whether there are more.
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

// Passes over the row; all threads of a cluster take the same way through them.
class RowPasses {
 public:
  __device__ RowPasses(const RowDigestCallCuda& call, const RowQuery& query, int row,
                       Shared& shared)
      : query_(query),
        shared_(shared),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {
    const int32_t live = min(call.tokens, max(query.vocab - call.first_token, 0));
    const int block = static_cast<int>(cluster_.block_rank());
    quads_ = {call.logits + row * call.stride, live,
              4 * (block * kThreads + static_cast<int>(threadIdx.x))};
    first_token_ = call.first_token;
  }

  __device__ void find_best() {
    bool bad = false;
    own_ = {-kInfinity, 0x7fffffff};
    for (int32_t begin = quads_.first; begin < quads_.tokens; begin += Quads::kStep) {
      float values[4];
      quads_.load(begin, values);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        bad |= !(values[i] < kInfinity);
        if (values[i] > own_.logit) own_ = {values[i], first_token_ + begin + i};
      }
    }
    const TokenLogit best = best_of_warp(own_);
    if (lane_ == 0) shared_.warp_best[warp_] = best;
    const bool block_bad = __syncthreads_or(bad ? 1 : 0) != 0;
    if (warp_ == 0) {
      const TokenLogit of_block = best_of_warp(shared_.warp_best[lane_]);
      if (lane_ == 0) {
        shared_.best = of_block;
        shared_.bad = block_bad ? 1 : 0;
      }
    }
    cluster_.sync();
    if (warp_ == 0) {
      const Shared* const peer = cluster_.map_shared_rank(&shared_, lane_ % kBlocks);
      const TokenLogit of_row = best_of_warp(peer->best);
      const bool row_bad = __any_sync(~0u, peer->bad != 0) != 0;
      if (lane_ == 0) {
        shared_.row_best = of_row;
        shared_.row_bad = row_bad ? 1 : 0;
        // The best token's own sum rules out most of the others.
        if (wants(RowQuery::kNoise) && of_row.logit > -kInfinity) {
          const uint4 words = noise_of_quad(query_, of_row.token);
          const int word = of_row.token % 4;
          const uint32_t bits = word == 0   ? words.x
                                : word == 1 ? words.y
                                : word == 2 ? words.z
                                            : words.w;
          shared_.floor = gumbel_estimate(bits) - kNoiseMargin;
        }
      }
    }
    __syncthreads();
    best_ = shared_.row_best;
  }

  __device__ bool done() const {
    return shared_.row_bad != 0 || best_.logit == -kInfinity ||
           ((query_.kinds & (RowQuery::kNoise | RowQuery::kWeights | RowQuery::kRawWeights)) == 0 &&
            query_.top <= 0);
  }

  // Sums, and how deep the list must go.
  __device__ void sum() {
    if (query_.top > 0 && own_.logit > -kInfinity) {
      atomicAdd(&shared_.histogram[bucket_of(own_.logit, best_.logit)], 1);
    }
    unsigned long long weights[2] = {0, 0};
    if (wants(RowQuery::kNoise | RowQuery::kWeights | RowQuery::kRawWeights)) {
      float floor = shared_.floor;
      // Warps go together: they share what they have found.
      for (int32_t begin = quads_.first; __any_sync(~0u, begin < quads_.tokens);
           begin += Quads::kStep) {
        float values[4] = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
        if (begin < quads_.tokens) quads_.load(begin, values);
        sum_quad(begin, values, &floor, weights);
      }
    }
    const float largest = largest_of_warp(largest_.sums[0]);
    const unsigned long long sums[2] = {sum_of_warp(weights[0]), sum_of_warp(weights[1])};
    if (lane_ == 0) {
      shared_.warp_sum_of_noise[warp_] = largest;
      shared_.warp_sums[0][warp_] = sums[0];
      shared_.warp_sums[1][warp_] = sums[1];
    }
    __syncthreads();
    if (warp_ == 0) {
      const float of_block = largest_of_warp(shared_.warp_sum_of_noise[lane_]);
      const unsigned long long at_temperature = sum_of_warp(shared_.warp_sums[0][lane_]);
      const unsigned long long raw = sum_of_warp(shared_.warp_sums[1][lane_]);
      if (lane_ == 0) {
        shared_.largest = of_block;
        shared_.sums[0] = at_temperature;
        shared_.sums[1] = raw;
      }
    }
    cluster_.sync();
    if (query_.top > 0 && threadIdx.x < kBuckets) {
      int total = 0;
      for (int block = 0; block < kBlocks; ++block) {
        total += cluster_.map_shared_rank(&shared_, block)->histogram[threadIdx.x];
      }
      shared_.total[threadIdx.x] = total;
    }
    if (warp_ == kWarps - 1) {
      const float of_row =
          largest_of_warp(cluster_.map_shared_rank(&shared_, lane_ % kBlocks)->largest);
      if (lane_ == 0) shared_.row_largest = of_row;
    }
    __syncthreads();
    if (query_.top > 0) {
      if (warp_ == 0) find_last_bucket();
      __syncthreads();
    }
  }

  // Appends to the lists of the cluster's first block.
  __device__ void list() {
    Shared* const first = cluster_.map_shared_rank(&shared_, 0);
    if (query_.top > 0 && own_.logit > -kInfinity &&
        bucket_of(own_.logit, best_.logit) <= shared_.last_bucket) {
      for (int32_t begin = quads_.first; begin < quads_.tokens; begin += Quads::kStep) {
        float values[4];
        quads_.load(begin, values);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (!(values[i] > -kInfinity) ||
              bucket_of(values[i], best_.logit) > shared_.last_bucket) {
            continue;
          }
          const int slot = atomicAdd(&first->num_listed, 1);
          if (slot < RowDigest::kMostListed) {
            first->listed[slot] = {values[i], first_token_ + begin + i};
          }
        }
      }
    }
    if (!wants(RowQuery::kNoise)) return;
    const float floor = shared_.row_largest - kNoiseMargin;
    if (largest_.sums[2] >= floor) atomicAdd(&first->num_nominees, RowDigest::kMostNominees);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!(largest_.sums[i] >= floor)) continue;
      const int slot = atomicAdd(&first->num_nominees, 1);
      if (slot < RowDigest::kMostNominees) first->nominees[slot] = largest_.tokens[i];
    }
  }

  // By the cluster's first block.
  __device__ void write(bool summed, RowDigest* digest) {
    const int listed = shared_.num_listed <= RowDigest::kMostListed ? shared_.num_listed : -1;
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kThreads) {
      digest->listed[i] = shared_.listed[i];
    }
    const int nominees =
        shared_.num_nominees <= RowDigest::kMostNominees ? shared_.num_nominees : -1;
    if (static_cast<int>(threadIdx.x) < nominees) {
      digest->nominees[threadIdx.x] = shared_.nominees[threadIdx.x];
    }
    if (warp_ != 0) return;
    unsigned long long sums[2] = {0, 0};
    if (summed) {
      const Shared* const peer = cluster_.map_shared_rank(&shared_, lane_ % kBlocks);
      // Every peer's sum is there 32 / kBlocks times.
      sums[0] = sum_of_warp(lane_ < kBlocks ? peer->sums[0] : 0);
      sums[1] = sum_of_warp(lane_ < kBlocks ? peer->sums[1] : 0);
    }
    if (lane_ != 0) return;
    const bool any = best_.logit > -kInfinity;
    digest->best = {best_.logit, any ? best_.token : -1};
    digest->bad = shared_.row_bad;
    digest->num_listed = listed;
    digest->lists_all =
        !any || (summed && query_.top > 0 && listed >= 0 && shared_.last_bucket == kBuckets - 1)
            ? 1
            : 0;
    digest->num_nominees = nominees;
    digest->has_weights = 1;
    digest->weights = wants(RowQuery::kWeights) ? sums[0] : 0;
    digest->raw_weights = wants(RowQuery::kRawWeights) ? sums[1] : 0;
  }

 private:
  __device__ __forceinline__ bool wants(uint32_t kinds) const {
    return (query_.kinds & kinds) != 0;
  }

  __device__ __forceinline__ void sum_quad(int32_t begin, const float (&values)[4], float* floor,
                                           unsigned long long (&weights)[2]) {
    float scores[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float depth = values[i] - best_.logit;
      scores[i] = depth * query_.inv_temperature;
      if (wants(RowQuery::kWeights)) weights[0] += fixed_token_weight(token_weight(scores[i]));
      if (wants(RowQuery::kRawWeights)) weights[1] += fixed_token_weight(token_weight(depth));
    }
    if (!wants(RowQuery::kNoise)) return;
    const float best = fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3]));
    if (!__any_sync(~0u, best >= *floor - kMaxGumbel)) return;
    const uint4 words = noise_of_quad(query_, first_token_ + begin);
    const uint32_t bits[4] = {words.x, words.y, words.z, words.w};
    bool found = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!(scores[i] + gumbel_bound(bits[i]) >= *floor)) continue;
      largest_.offer(scores[i] + gumbel_estimate(bits[i]), {values[i], first_token_ + begin + i});
      found = true;
    }
    if (!__any_sync(~0u, found)) return;
    *floor = fmaxf(*floor, largest_of_warp(largest_.sums[0]) - kNoiseMargin);
  }

  // The first bucket that, with those above it, holds as many threads as tokens are wanted; the
  // last one where none does.
  __device__ void find_last_bucket() {
    constexpr int kEach = kBuckets / 32;
    int counts[kEach];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) sum += counts[i] = shared_.total[lane_ * kEach + i];
    int before = sum;  // becomes that of the lanes before
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(~0u, before, distance);
      if (lane_ >= distance) before += other;
    }
    before -= sum;
    int last = kBuckets - 1;
#pragma unroll
    for (int i = kEach - 1; i >= 0; --i) {
      // Downwards, so that the first one stays.
      int reached = before;
#pragma unroll
      for (int j = 0; j <= i; ++j) reached += counts[j];
      if (reached >= query_.top) last = lane_ * kEach + i;
    }
    last = __reduce_min_sync(~0u, last);
    if (lane_ == 0) shared_.last_bucket = last;
  }

  const RowQuery& query_;
  Shared& shared_;
  cg::cluster_group cluster_ = cg::this_cluster();
  int warp_;
  int lane_;
  Quads quads_;
  int32_t first_token_;
  TokenLogit own_;   // the thread's best
  TokenLogit best_;  // the row's
  LargestSums largest_;
};

#endif

__global__ void __launch_bounds__(kThreads) row_digest_kernel(RowDigestCallCuda call) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  __shared__ Shared shared;
  __shared__ RowQuery query;
  launch_dependents();
  for (int i = static_cast<int>(threadIdx.x); i < kBuckets; i += kThreads) shared.histogram[i] = 0;
  if (threadIdx.x == 0) {
    shared.num_listed = 0;
    shared.num_nominees = 0;
  }
  wait_for_previous_kernel();
  const int row = static_cast<int>(blockIdx.x) / kBlocks;
  if (row >= *reinterpret_cast<const int32_t*>(call.step + call.count_offset)) return;
  if (threadIdx.x == 0) {
    const int32_t offset = *reinterpret_cast<const int32_t*>(call.step + call.offset_offset);
    query = reinterpret_cast<const RowQuery*>(call.step + offset)[row];
  }
  __syncthreads();
  if ((query.kinds & RowQuery::kLogits) != 0) return;
  RowPasses passes(call, query, row, shared);
  passes.find_best();
  const bool summed = !passes.done();
  if (summed) {
    passes.sum();
    passes.list();
  }
  // What the others have read of a block's shared memory, and put into the first one's.
  cg::this_cluster().sync();
  if (blockIdx.x % kBlocks == 0) passes.write(summed, call.digests + row);
  cg::this_cluster().sync();
#endif
}

}  // namespace

Status prepare_row_digest_cuda() {
  return prefer_shared_memory(row_digest_kernel, "loading the digest of logits");
}

Status row_digest_cuda(const RowDigestCallCuda& call, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(call.rows * kBlocks));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {kBlocks, 1, 1};
  config.attrs = attributes;
  config.numAttrs = 2;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaLaunchKernelEx(&config, row_digest_kernel, call),
                               "launching the digest of logits");
  return {};
}

}  // namespace forerun::cuda
