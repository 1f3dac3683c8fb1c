// A cluster of blocks a row, which each thread brings its share of into shared memory. Blocks tell
// one another what they found by stores into each other's shared memory and meet three times at
// most:
//
//   1. best token, errors, each thread's own best;           meet: the row's best
//   2. weights; sums of score + noise, from a bound that needs no logarithm, and logarithms in f32
//      for those that reach the largest yet; a histogram of the threads' best, in eighths below the
//      row's;                                                meet: how deep the list must go, the
//                                                            largest sum
//   3. threads whose own best lies that deep list their tokens in the first block
//
// The histogram counts threads, not tokens: that as many threads reach a depth as tokens are wanted
// means that as many tokens do, and costs one atomic a thread. A list is longer than asked for by
// the tokens that share a thread or the last eighth: about a tenth at 256 of 128,256.
#include <cooperative_groups.h>

#include <limits>
#include <string>
#include <utility>

#include "base/noise.h"
#include "base/token_weight.h"
#include "kernels/launch_cuda.h"
#include "kernels/linear/linear_reduce_cuda.h"
#include "kernels/linear/ptx_cuda.h"
#include "kernels/row_digest/gumbel_cuda.h"
#include "kernels/row_digest/row_digest_cuda.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kBlocks = 8;  // of a cluster
constexpr int kQuadBytes = 16 * kThreads;
constexpr int kMostQuads = 12;  // a thread: what shared memory holds

// What the kernel needs beside the call.
struct Arguments {
  RowDigestCallCuda call;
  PeerMailboxes peers;  // degree 0: none
  int num_quads;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

namespace cg = cooperative_groups;

constexpr int kWarps = kThreads / 32;
constexpr int kBuckets = 256;
constexpr uint32_t kSums = RowQuery::kWeights | RowQuery::kRawWeights;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What a block tells the others.
struct Told {
  TokenLogit best;
  float noise;  // of the best token
  int bad;
};
// What a block tells the first one.
struct ToldFirst {
  unsigned long long sums[2];
  float largest;
  int num_nominees;
  TokenLogit nominees[RowDigest::kMostNominees];
};

struct Shared {
  TokenLogit warp_best[kWarps];
  unsigned long long warp_sums[2][kWarps];
  float warp_largest[kWarps];
  int histogram[kBuckets];
  int num_nominees;
  TokenLogit nominees[RowDigest::kMostNominees];
  int total[kBuckets];
  int last_bucket;
  float origin;
  // By block of the cluster.
  Told told[kBlocks];
  int histograms[kBlocks][kBuckets];
  // In the first block only.
  ToldFirst told_first[kBlocks];
  int num_listed;
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

// A thread's share of a row: quads of tokens, dealt out in turn over the cluster, in shared memory.
struct Quads {
  uint32_t address;  // of the first one; others kThreads quads apart
  int32_t count;
  int32_t tokens;  // of the row
  int32_t first;   // token
  static constexpr int32_t kStep = 4 * kBlocks * kThreads;

  __device__ __forceinline__ int32_t token(int quad) const { return first + quad * kStep; }
  __device__ __forceinline__ void request(const float* logits) const {
    for (int quad = 0; quad < count; ++quad) {
      const bool there = token(quad) < tokens;
      copy_16_async(address + quad * kThreads * 16, logits + (there ? token(quad) : 0), there);
    }
    copies_commit();
  }
  // Tokens past the end are masked.
  __device__ __forceinline__ void load(int quad, float (&values)[4]) const {
    const uint4 v = load_shared_16(address + quad * kThreads * 16);
    const int32_t begin = token(quad);
    values[0] = begin < tokens ? __uint_as_float(v.x) : -kInfinity;
    values[1] = begin + 1 < tokens ? __uint_as_float(v.y) : -kInfinity;
    values[2] = begin + 2 < tokens ? __uint_as_float(v.z) : -kInfinity;
    values[3] = begin + 3 < tokens ? __uint_as_float(v.w) : -kInfinity;
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
  __device__ RowPasses(const Arguments& arguments, const RowQuery& query, int row, uint32_t quads,
                       Shared& shared)
      : peers_(arguments.peers),
        senders_(arguments.call.senders),
        query_(query),
        shared_(shared),
        rank_(static_cast<int>(cluster_.block_rank())),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        first_token_(arguments.call.first_token) {
    const RowDigestCallCuda& call = arguments.call;
    const int32_t live = min(call.tokens, max(query.vocab - call.first_token, 0));
    const auto thread = static_cast<int>(threadIdx.x);
    quads_ = {quads + 16 * threadIdx.x, arguments.num_quads, live, 4 * (rank_ * kThreads + thread)};
    quads_.request(call.logits + row * call.stride);
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
    if (warp_ == 0) {
      Told told = {best_of_warp(shared_.warp_best[lane_]), 0.0f, block_bad ? 1 : 0};
      // The sums of the blocks' best tokens rule out most of the others.
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

  // Makes the row's largest logit the origin of weights: every block has a word for its like on
  // each of the other GPUs.
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

  // Sums, and how deep the list must go.
  __device__ void sum() {
    const bool lists = query_.top > 0;
    if (lists && own_.logit > -kInfinity) {
      atomicAdd(&shared_.histogram[bucket_of(own_.logit, best_.logit)], 1);
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
      // Eight warps to the first of the cluster's blocks, eight to the second, ...
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

  // Appends to the list of the cluster's first block.
  __device__ void list() {
    if (query_.top <= 0 || own_.logit == -kInfinity ||
        bucket_of(own_.logit, best_.logit) > shared_.last_bucket) {
      return;
    }
    Shared* const first = cluster_.map_shared_rank(&shared_, 0);
    for (int quad = 0; quad < quads_.count; ++quad) {
      float values[4];
      quads_.load(quad, values);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!(values[i] > -kInfinity) || bucket_of(values[i], best_.logit) > shared_.last_bucket) {
          continue;
        }
        const int slot = atomicAdd(&first->num_listed, 1);
        if (slot < RowDigest::kMostListed) {
          first->listed[slot] = {values[i], first_token_ + quads_.token(quad) + i};
        }
      }
    }
  }

  // By the cluster's first block.
  __device__ void write(bool summed, RowDigest* digest) {
    const bool lists = summed && query_.top > 0;
    const int listed = shared_.num_listed <= RowDigest::kMostListed ? shared_.num_listed : -1;
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kThreads) {
      digest->listed[i] = shared_.listed[i];
    }
    if (warp_ != 0) return;
    const bool noise = summed && wants(RowQuery::kNoise);
    const int nominees = noise ? write_nominees(digest) : 0;
    const auto& told = shared_.told_first[lane_ % kBlocks];
    const bool counts = summed && lane_ < kBlocks;
    const unsigned long long weights =
        sum_of_warp(counts && wants(RowQuery::kWeights) ? told.sums[0] : 0);
    const unsigned long long raw_weights =
        sum_of_warp(counts && wants(RowQuery::kRawWeights) ? told.sums[1] : 0);
    if (lane_ != 0) return;
    const bool any = best_.logit > -kInfinity;
    digest->best = {best_.logit, any ? best_.token : -1};
    digest->bad = bad_ ? 1 : 0;
    digest->num_listed = listed;
    digest->lists_all =
        !any || (lists && listed >= 0 && shared_.last_bucket == kBuckets - 1) ? 1 : 0;
    digest->num_nominees = nominees;
    digest->has_weights = 1;
    digest->weight_origin = origin_;
    digest->weights = weights;
    digest->raw_weights = raw_weights;
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

  __device__ __forceinline__ void sum_quad(int32_t begin, const float (&values)[4],
                                           unsigned long long (&weights)[2]) {
    float scores[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[i] = (values[i] - best_.logit) * query_.inv_temperature;
      const float depth = values[i] - origin_;
      if (wants(RowQuery::kWeights)) {
        weights[0] += fixed_token_weight(token_weight(depth * query_.inv_temperature));
      }
      if (wants(RowQuery::kRawWeights)) weights[1] += fixed_token_weight(token_weight(depth));
    }
    if (!wants(RowQuery::kNoise)) return;
    const float best = fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3]));
    if (!__any_sync(~0u, best >= floor_ - kMaxGumbel)) return;
    const uint4 words = noise_of_quad(query_, first_token_ + begin);
    const uint32_t bits[4] = {words.x, words.y, words.z, words.w};
    bool found = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!(scores[i] + noise_bound(bits[i]) >= floor_)) continue;
      largest_.offer(scores[i] + gumbel_estimate(bits[i]), {values[i], first_token_ + begin + i});
      found = true;
    }
    // Warps share what they have found.
    if (!__any_sync(~0u, found)) return;
    floor_ = fmaxf(floor_, largest_of_warp(largest_.sums[0]) - kNoiseMargin);
  }

  // The block's sums, its largest one with the tokens that come near it.
  __device__ void tell_sums() {
    const float largest = largest_of_warp(shared_.warp_largest[lane_]);
    if (wants(RowQuery::kNoise) && largest > -kInfinity) {
      const float floor = largest - kNoiseMargin;
      if (largest_.sums[2] >= floor) atomicAdd(&shared_.num_nominees, RowDigest::kMostNominees);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (!(largest_.sums[i] >= floor)) continue;
        const int slot = atomicAdd(&shared_.num_nominees, 1);
        if (slot < RowDigest::kMostNominees) shared_.nominees[slot] = largest_.tokens[i];
      }
    }
    __syncthreads();
    if (warp_ != 0) return;
    const unsigned long long sums[2] = {sum_of_warp(shared_.warp_sums[0][lane_]),
                                        sum_of_warp(shared_.warp_sums[1][lane_])};
    ToldFirst& told = cluster_.map_shared_rank(&shared_, 0)->told_first[rank_];
    if (lane_ < min(shared_.num_nominees, RowDigest::kMostNominees)) {
      told.nominees[lane_] = shared_.nominees[lane_];
    }
    if (lane_ != 0) return;
    told.sums[0] = sums[0];
    told.sums[1] = sums[1];
    told.largest = largest;
    told.num_nominees = shared_.num_nominees;
  }

  // Those of the blocks whose largest sum comes near the row's; returns how many.
  __device__ int write_nominees(RowDigest* digest) {
    const float of_block = shared_.told_first[lane_ % kBlocks].largest;
    const float floor = largest_of_warp(of_block) - kNoiseMargin;
    int count = 0;
    for (int block = 0; block < kBlocks; ++block) {
      const ToldFirst& told = shared_.told_first[block];
      if (!(told.largest >= floor)) continue;
      if (count + told.num_nominees > RowDigest::kMostNominees) return -1;
      if (lane_ < told.num_nominees) digest->nominees[count + lane_] = told.nominees[lane_];
      count += told.num_nominees;
    }
    return count;
  }

  // The first bucket that, with those above it, holds as many threads as tokens are wanted; the
  // last one where none does.
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
  TokenLogit own_;   // the thread's best
  TokenLogit best_;  // the row's
  float origin_;     // of weights
  bool bad_;
  float floor_;  // sums below it are not the largest
  LargestSums largest_;
};

#endif

__global__ void __launch_bounds__(kThreads)
    row_digest_kernel(const __grid_constant__ Arguments arguments) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  const RowDigestCallCuda& call = arguments.call;
  extern __shared__ __align__(16) std::byte quads[];
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
  RowPasses passes(arguments, query, row, shared_address(quads), shared);
  passes.find_best();
  passes.meet_peers(row);
  const bool first = blockIdx.x % kBlocks == 0;
  const bool summed = !passes.done();
  if (summed) {
    passes.sum();
    if (query.top > 0) {
      passes.list();
      __syncwarp();
      // Nobody looks into a block that is not the first any more: only that one waits.
      auto arrived = cg::this_cluster().barrier_arrive();
      if (first) cg::this_cluster().barrier_wait(std::move(arrived));
    }
  }
  if (first) passes.write(summed, call.digests + row);
#endif
}

}  // namespace

Status prepare_row_digest_cuda() {
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaFuncSetAttribute(row_digest_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kMostQuads * kQuadBytes),
      "loading the digest of logits");
  return prefer_shared_memory(row_digest_kernel, "loading the digest of logits");
}

PeerGroupOptions row_maxima_group(int64_t most_rows) {
  // A word for each of a row's blocks; a group has one for 8 columns of a row.
  return {.most_rows = most_rows, .width = 8 * kBlocks};
}

Status row_digest_cuda(const RowDigestCallCuda& call, cudaStream_t stream) {
  constexpr int kTokens = 4 * kThreads * kBlocks;  // that have a quad a thread
  const int num_quads = (call.tokens + kTokens - 1) / kTokens;
  if (num_quads > kMostQuads) {
    return {StatusCode::kUnsupported, "a vocabulary of " + std::to_string(call.tokens) +
                                          " tokens on one GPU; accepted are " +
                                          std::to_string(kMostQuads * kTokens)};
  }
  Arguments arguments = {.call = call, .peers = {}, .num_quads = num_quads};
  if (call.peers != nullptr) {
    if (call.peers->slot_words < int64_t{call.rows} * kBlocks) {
      return {StatusCode::kInvalidArgument, "more rows than their mailboxes hold"};
    }
    arguments.peers = *call.peers;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(call.rows * kBlocks));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(num_quads * kQuadBytes);
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {kBlocks, 1, 1};
  config.attrs = attributes;
  config.numAttrs = 2;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaLaunchKernelEx(&config, row_digest_kernel, arguments),
                               "launching the digest of logits");
  return {};
}

}  // namespace forerun::cuda
