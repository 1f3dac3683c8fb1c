// Selection of KV tokens by observed attention (kv_select/cuda/kv_select.h).
//
// The lower bound of its time is reading the keys twice. Tensor cores compute scores for tiles of
// 64 keys x 64 queries (a query is one head of one observer), which pass through shared memory as
// f32. The order of all sums depends only on the sizes in the call.
#include <cuda_bf16.h>
#include <mma.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/cuda/launch.h"
#include "kernels/kv_select/cuda/kv_select.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kQueries = 64;  // queries per chunk
constexpr int kKeys = kTilePositions;
constexpr int kChooseThreads = 1024;
constexpr int kScoreStride = kQueries + 4;  // stride of keys in floats

struct SelectArgs {
  const __nv_bfloat16* q;
  const int32_t* block_table;
  const int32_t* blocks;
  const std::byte* keys;  // keys of the layer in KV block 0
  std::byte* cache;
  float2* partials;   // [kv_head][tile][queries]: largest score, sum of exponentials
  float2* totals;     // [kv_head][queries]: largest score, 1 / sum
  float* importance;  // [kv_head][tokens]
  int32_t* order;     // [kv_head][chosen]
  int64_t block_stride, tile_bytes;
  float scale;
  int num_heads, kv_heads, group, padded_dim, head_dim;
  int observers, queries, first_weighed, weighed_step, tiles, tokens, chosen, pooling;
};

// Returns the row stride, in elements, of operands in shared memory: 16 bytes more than a row, so
// that rows lie in different banks.
__host__ __device__ constexpr int operand_stride(int padded_dim) { return padded_dim + 8; }
constexpr size_t shared_bytes(int padded_dim) {
  return static_cast<size_t>(kKeys + kQueries) * static_cast<size_t>(operand_stride(padded_dim)) *
             2 +
         static_cast<size_t>(kKeys * kScoreStride) * sizeof(float);
}

struct Operands {
  __nv_bfloat16* keys;     // [kKeys][operand_stride]
  __nv_bfloat16* queries;  // [kQueries][operand_stride]
  float* scores;           // [kKeys][kScoreStride]
};

__device__ Operands operands_in(std::byte* shared, int padded_dim) {
  auto* const keys = reinterpret_cast<__nv_bfloat16*>(shared);
  __nv_bfloat16* const queries = keys + kKeys * operand_stride(padded_dim);
  return {keys, queries, reinterpret_cast<float*>(queries + kQueries * operand_stride(padded_dim))};
}

__device__ void load_keys(const SelectArgs& args, int tile, int kv_head, const Operands& to) {
  const std::byte* const from =
      args.keys + args.block_table[tile] * args.block_stride + kv_head * args.tile_bytes;
  const int pieces = args.padded_dim / 8;
  for (int i = threadIdx.x; i < kKeys * pieces; i += kThreads) {
    const int row = i / pieces;
    const int piece = i % pieces;
    *reinterpret_cast<uint4*>(to.keys + row * operand_stride(args.padded_dim) + piece * 8) =
        *reinterpret_cast<const uint4*>(from + row * kPanelRowBytes + kv_piece(piece, row));
  }
}

// Loads queries [first, first + kQueries) of the KV head; queries past the last are zero.
__device__ void load_queries(const SelectArgs& args, int first, int kv_head, const Operands& to) {
  const int pieces = args.padded_dim / 8;
  for (int i = threadIdx.x; i < kQueries * pieces; i += kThreads) {
    const int query = first + i / pieces;
    const int piece = i % pieces;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (query < args.queries) {
      const int64_t head = static_cast<int64_t>(query / args.group) * args.num_heads +
                           kv_head * args.group + query % args.group;
      v = *reinterpret_cast<const uint4*>(args.q + head * args.padded_dim + piece * 8);
    }
    *reinterpret_cast<uint4*>(to.queries + i / pieces * operand_stride(args.padded_dim) +
                              piece * 8) = v;
  }
}

// Computes the scores of the keys and queries in shared memory. All threads call it.
__device__ void multiply(const SelectArgs& args, const Operands& in) {
  using namespace nvcuda;
  const int stride = operand_stride(args.padded_dim);
  for (int tile = threadIdx.x / 32; tile < kKeys / 16 * (kQueries / 16); tile += kWarps) {
    const int key = tile / (kQueries / 16) * 16;
    const int query = tile % (kQueries / 16) * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    wmma::fill_fragment(sums, 0.0f);
    for (int dim = 0; dim < args.padded_dim; dim += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b;
      wmma::load_matrix_sync(a, in.keys + key * stride + dim, stride);
      wmma::load_matrix_sync(b, in.queries + query * stride + dim, stride);
      wmma::mma_sync(sums, a, b, sums);
    }
    wmma::store_matrix_sync(in.scores + key * kScoreStride + query, sums, kScoreStride,
                            wmma::mem_row_major);
  }
}

// Returns whether the query's observer attends to the token.
__device__ bool weighs(const SelectArgs& args, int query, int token) {
  return token < args.first_weighed + args.weighed_step * (query / args.group);
}

// Computes the partial softmax (largest score, sum of exponentials) of every query over a tile,
// with one thread block per (tile, KV head).
__global__ void __launch_bounds__(kThreads) partials_kernel(const SelectArgs args) {
  extern __shared__ __align__(16) std::byte shared[];
  const Operands operands = operands_in(shared, args.padded_dim);
  const int tile = blockIdx.x;
  const int kv_head = blockIdx.y;
  load_keys(args, tile, kv_head, operands);
  for (int first = 0; first < args.queries; first += kQueries) {
    load_queries(args, first, kv_head, operands);
    __syncthreads();
    multiply(args, operands);
    __syncthreads();
    // Each query has four threads, with 16 keys each.
    const int local = threadIdx.x / 4;
    const int query = first + local;
    const int begin = threadIdx.x % 4 * 16;
    float max_score = -INFINITY;
    for (int key = begin; key < begin + 16; ++key) {
      if (!weighs(args, query, tile * kKeys + key)) break;
      max_score = fmaxf(max_score, operands.scores[key * kScoreStride + local] * args.scale);
    }
    for (int lanes = 1; lanes < 4; lanes *= 2) {
      max_score = fmaxf(max_score, __shfl_xor_sync(~0u, max_score, lanes));
    }
    float sum = 0.0f;
    for (int key = begin; key < begin + 16; ++key) {
      if (!weighs(args, query, tile * kKeys + key)) break;
      sum += __expf(operands.scores[key * kScoreStride + local] * args.scale - max_score);
    }
    for (int lanes = 1; lanes < 4; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
    if (begin == 0 && query < args.queries) {
      args.partials[(static_cast<int64_t>(kv_head) * args.tiles + tile) * args.queries + query] =
          make_float2(max_score, sum);
    }
    __syncthreads();
  }
}

// Merges the partial softmax of all tiles, with one block per KV head and one thread per query.
__global__ void totals_kernel(const SelectArgs args) {
  const int kv_head = blockIdx.x;
  const int query = blockIdx.y * blockDim.x + threadIdx.x;
  if (query >= args.queries) return;
  const float2* const parts =
      args.partials + static_cast<int64_t>(kv_head) * args.tiles * args.queries + query;
  float max_score = -INFINITY;
  for (int tile = 0; tile < args.tiles; ++tile) {
    max_score = fmaxf(max_score, parts[static_cast<int64_t>(tile) * args.queries].x);
  }
  float sum = 0.0f;
  for (int tile = 0; tile < args.tiles; ++tile) {
    const float2 part = parts[static_cast<int64_t>(tile) * args.queries];
    if (part.y > 0.0f) sum += part.y * __expf(part.x - max_score);
  }
  args.totals[kv_head * args.queries + query] = make_float2(max_score, 1.0f / sum);
}

// Computes the importance of a tile's tokens, per block (tile of candidates, KV head).
__global__ void __launch_bounds__(kThreads) importance_kernel(const SelectArgs args) {
  extern __shared__ __align__(16) std::byte shared[];
  const Operands operands = operands_in(shared, args.padded_dim);
  const int tile = blockIdx.x;
  const int kv_head = blockIdx.y;
  load_keys(args, tile, kv_head, operands);
  // Each key has four threads, with 16 queries of a chunk each.
  const int key = threadIdx.x / 4;
  const int begin = threadIdx.x % 4 * 16;
  float importance = 0.0f;
  for (int first = 0; first < args.queries; first += kQueries) {
    load_queries(args, first, kv_head, operands);
    __syncthreads();
    multiply(args, operands);
    __syncthreads();
    for (int local = begin; local < begin + 16 && first + local < args.queries; ++local) {
      const float2 total = args.totals[kv_head * args.queries + first + local];
      const float score = operands.scores[key * kScoreStride + local] * args.scale;
      importance += __expf(score - total.x) * total.y;
    }
    __syncthreads();
  }
  for (int lanes = 1; lanes < 4; lanes *= 2) {
    importance += __shfl_xor_sync(~0u, importance, lanes);
  }
  const int token = tile * kKeys + key;
  if (begin == 0 && token < args.tokens) {
    args.importance[static_cast<int64_t>(kv_head) * args.tokens + token] = importance;
  }
}

// Returns the bits by which pooled importance is compared: sums over neighbours are not negative,
// so they have the same order as their bits.
__device__ unsigned pooled_bits(const SelectArgs& args, const float* importance, int token) {
  const int first = max(token - args.pooling / 2, 0);
  const int last = min(token + args.pooling / 2, args.tokens - 1);
  float sum = 0.0f;
  for (int other = first; other <= last; ++other) sum += importance[other];
  return __float_as_uint(fmaxf(sum, 0.0f));  // NaN counts as 0
}

// Returns the number of threads before this one with `value` set, and the number of all such
// threads in `total`. For kChooseThreads threads.
__device__ int count_before(bool value, int* warps, int* total) {
  const unsigned votes = __ballot_sync(~0u, value);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  __syncthreads();  // all threads have read `warps`
  if (lane == 0) warps[warp] = __popc(votes);
  __syncthreads();
  int before = 0;
  int all = 0;
  for (int other = 0; other < kChooseThreads / 32; ++other) {
    if (other < warp) before += warps[other];
    all += warps[other];
  }
  *total = all;
  return before + __popc(votes & ((1u << lane) - 1));
}

// Writes the `chosen` tokens with the largest pooled importance in ascending order, with one block
// per KV head; among equally important tokens it takes the earlier ones. A radix search, one byte
// at a time, finds the smallest selected importance.
__global__ void __launch_bounds__(kChooseThreads) choose_kernel(const SelectArgs args) {
  __shared__ int counts[256];
  __shared__ int warps[kChooseThreads / 32];
  __shared__ unsigned known;
  __shared__ int wanted;
  const int kv_head = blockIdx.x;
  const float* const importance = args.importance + static_cast<int64_t>(kv_head) * args.tokens;
  int32_t* const order = args.order + static_cast<int64_t>(kv_head) * args.chosen;
  if (threadIdx.x == 0) {
    known = 0;
    wanted = args.chosen;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    if (threadIdx.x < 256) counts[threadIdx.x] = 0;
    __syncthreads();
    const unsigned above = shift == 24 ? 0 : ~0u << (shift + 8);
    for (int token = threadIdx.x; token < args.tokens; token += kChooseThreads) {
      const unsigned bits = pooled_bits(args, importance, token);
      if ((bits & above) == known) atomicAdd(&counts[bits >> shift & 255], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      while (digit > 0 && counts[digit] < wanted) wanted -= counts[digit--];
      known |= static_cast<unsigned>(digit) << shift;
    }
    __syncthreads();
  }
  // Takes `wanted` tokens with importance equal to `known`, and all tokens above it.
  const unsigned least = known;
  const int of_equal = wanted;
  int equal = 0;
  int taken = 0;
  for (int first = 0; first < args.tokens; first += kChooseThreads) {
    const int token = first + static_cast<int>(threadIdx.x);
    const unsigned bits = token < args.tokens ? pooled_bits(args, importance, token) : 0;
    const bool equals = token < args.tokens && bits == least;
    int total = 0;
    const int equal_before = equal + count_before(equals, warps, &total);
    equal += total;
    const bool is_chosen =
        token < args.tokens && (bits > least || (equals && equal_before < of_equal));
    const int place = taken + count_before(is_chosen, warps, &total);
    taken += total;
    if (is_chosen) order[place] = token;
  }
}

// Copies selected tokens; each thread takes a 16-byte piece of a key and its value.
__global__ void gather_kernel(const SelectArgs args) {
  const int pieces = args.padded_dim / 8;
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  const int place = index / pieces;
  if (place >= args.chosen) return;
  const int piece = index % pieces;
  const int kv_head = blockIdx.y;
  const int token = args.order[static_cast<int64_t>(kv_head) * args.chosen + place];
  const auto at = [&](const int32_t* table, int slot) {
    return args.cache + table[slot / kKeys] * args.block_stride + kv_head * args.tile_bytes +
           slot % kKeys * kPanelRowBytes + kv_piece(piece, slot);
  };
  const std::byte* const from = at(args.block_table, token);
  std::byte* const to = at(args.blocks, place);
  const int64_t values = args.kv_heads * args.tile_bytes;
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
  *reinterpret_cast<uint4*>(to + values) = *reinterpret_cast<const uint4*>(from + values);
}

constexpr size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

// The parts of the scratch memory, which lie in this order: their sizes in bytes.
struct Scratch {
  size_t partials, totals, importance, order;
  size_t bytes() const { return partials + totals + importance + order; }
};
Scratch scratch_of(int64_t observers, int64_t weighed, int64_t num_heads, int64_t kv_heads) {
  const int64_t tiles = (weighed + kKeys - 1) / kKeys;
  const int64_t queries = observers * num_heads;  // queries of all KV heads
  return {.partials = aligned(static_cast<size_t>(tiles * queries) * sizeof(float2)),
          .totals = aligned(static_cast<size_t>(queries) * sizeof(float2)),
          .importance = aligned(static_cast<size_t>(kv_heads * weighed) * sizeof(float)),
          .order = aligned(static_cast<size_t>(kv_heads * weighed) * sizeof(int32_t))};
}

Status check_call(const KvSelectCallCuda& call) {
  const auto refuse = [](const std::string& what) {
    return Status(StatusCode::kInvalidArgument, "KV selection on a GPU: " + what);
  };
  if (call.observers < 1 || call.first_weighed < 1) {
    return refuse("found " + std::to_string(call.observers) + " observers of " +
                  std::to_string(call.first_weighed) + " tokens; accepted: at least 1 of each");
  }
  if (call.weighed_step < 0 || call.weighed_step > 1) {
    return refuse("found weighed_step " + std::to_string(call.weighed_step) + "; accepted: 0 or 1");
  }
  if (call.tokens < 1 || call.tokens > call.first_weighed) {
    return refuse("found " + std::to_string(call.tokens) + " candidate tokens; accepted: 1 to " +
                  std::to_string(call.first_weighed) + ", to which all observers attend");
  }
  if (call.chosen < kKeys || call.chosen % kKeys != 0 || call.chosen > call.tokens) {
    return refuse(std::to_string(call.chosen) + " chosen tokens; accepted: multiples of " +
                  std::to_string(kKeys) + " up to " + std::to_string(call.tokens));
  }
  if (call.pooling < 1 || call.pooling % 2 == 0) {
    return refuse("pooling " + std::to_string(call.pooling) + "; accepted: odd numbers");
  }
  return {};
}

}  // namespace

size_t kv_select_scratch_bytes(int32_t observers, int32_t weighed, int32_t num_heads,
                               int32_t num_kv_heads) {
  return scratch_of(observers, weighed, num_heads, num_kv_heads).bytes();
}

Status prepare_kv_select_cuda() {
  constexpr int kBytes = static_cast<int>(shared_bytes(256));
  FORERUN_RETURN_IF_ERROR(
      allow_shared_memory(partials_kernel, kBytes, "loading the selection of KV"));
  return allow_shared_memory(importance_kernel, kBytes, "loading the selection of KV");
}

Status kv_select_cuda(const KvSelectCallCuda& call, cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(check_call(call));
  const int kv_heads = call.kv.num_kv_heads;
  const Scratch scratch = scratch_of(call.observers, call.max_weighed(), call.num_heads, kv_heads);
  SelectArgs args;
  args.q = call.q;
  args.block_table = call.block_table;
  args.blocks = call.blocks;
  args.keys = call.kv.data;
  args.cache = call.kv.data;
  args.partials = reinterpret_cast<float2*>(call.scratch);
  args.totals = reinterpret_cast<float2*>(call.scratch + scratch.partials);
  args.importance = reinterpret_cast<float*>(call.scratch + scratch.partials + scratch.totals);
  args.order = reinterpret_cast<int32_t*>(call.scratch + scratch.partials + scratch.totals +
                                          scratch.importance);
  args.block_stride = call.kv.block_stride_bytes;
  args.tile_bytes = call.kv.tile_bytes();
  args.scale = 1.0f / std::sqrt(static_cast<float>(call.kv.head_dim));
  args.num_heads = call.num_heads;
  args.kv_heads = kv_heads;
  args.group = call.num_heads / kv_heads;
  args.padded_dim = padded_head_dim_cuda(call.kv.head_dim);
  args.head_dim = call.kv.head_dim;
  args.observers = call.observers;
  args.queries = call.observers * args.group;
  args.first_weighed = call.first_weighed;
  args.weighed_step = call.weighed_step;
  args.tiles = (call.max_weighed() + kKeys - 1) / kKeys;
  args.tokens = call.tokens;
  args.chosen = call.chosen;
  args.pooling = call.pooling;

  const auto heads = static_cast<unsigned>(kv_heads);
  const size_t shared = shared_bytes(args.padded_dim);
  const auto units = [](int count, int a_block) {
    return static_cast<unsigned>((count + a_block - 1) / a_block);
  };
  partials_kernel<<<dim3(static_cast<unsigned>(args.tiles), heads), kThreads, shared, stream>>>(
      args);
  totals_kernel<<<dim3(heads, units(args.queries, 64)), 64, 0, stream>>>(args);
  importance_kernel<<<dim3(units(args.tokens, kKeys), heads), kThreads, shared, stream>>>(args);
  choose_kernel<<<heads, kChooseThreads, 0, stream>>>(args);
  gather_kernel<<<dim3(units(args.chosen * (args.padded_dim / 8), kThreads), heads), kThreads, 0,
                  stream>>>(args);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "choosing and gathering KV");
  return {};
}

}  // namespace forerun::cuda
