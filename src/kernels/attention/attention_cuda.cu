// A warp takes one row and the up to 8 query heads of one key/value head: keys are the 16-row
// operand of mma.m16n8k16, the heads its 8 columns, so the instruction's shape is the same for any
// number of rows. Tiles of 64 keys and values below the rows' boundary are copied whole into shared
// memory, for all rows of a group; what lies in the tree is gathered by each row for itself, 16
// positions at a time, in the order of its own ancestors.
//
// Floor: the cache's bytes over the memory's bandwidth for long contexts; for short ones the chain
// queries -> scores -> partial result -> flag -> merge, each a trip through the L2.
//  - one block an SM, each with about half of its shared memory: the next linear layer finds one
//    place free on every SM (linear_cuda.cu), and every block is resident, so that blocks may wait
//    for one another;
//  - the cache's tiles are requested before the previous kernel's end is awaited;
//  - for few rows (kFused) the kernel rotates queries and keys itself, from the linear layer's
//    output, and writes the step's keys and values to the cache: one kernel less in the chain;
//  - partial results go through the L2 in the order in which the lanes hold them, and every block
//    merges a share of them once the blocks that it needs have arrived (SwiftSpec's combination in
//    the same launch).
#include <cuda_bf16.h>

#include <algorithm>
#include <string>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/kv_layout_cuda.h"
#include "kernels/launch_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {
namespace {

constexpr int kWarps = kGroupRows;
constexpr int kThreads = kWarps * 32;
// Tiles on their way: two beside a linear layer's block; more for long contexts, where the memory's
// latency counts and overlap with other kernels does not.
constexpr int kFewStages = 2;
constexpr int kManyStages = 5;
constexpr int kChunk = 16;  // positions that one instruction takes

constexpr int tile_bytes(int dim) { return kTilePositions * dim * 2; }
constexpr int chunk_bytes(int dim) { return kChunk * dim * 2; }
constexpr int kAttentionBarrierBytes = 128;
// Behind the stages of tiles: values that each warp gathers for itself, or (kFused) the keys and
// values of the extras, and each warp's list of them.
constexpr int own_bytes(int dim, bool fused) {
  return fused ? 2 * kMostExtras * dim * 2 + kWarps * kMostExtras : kWarps * chunk_bytes(dim);
}
constexpr int shared_bytes(int dim, bool fused, int stages) {
  return kAttentionBarrierBytes + stages * 2 * tile_bytes(dim) + own_bytes(dim, fused);
}
constexpr int stages_for(int dim, bool fused, bool long_contexts, int shared_limit) {
  int stages = long_contexts ? kManyStages : kFewStages;
  while (shared_bytes(dim, fused, stages) > shared_limit) --stages;
  return stages;
}

struct AttentionArgs {
  const AttentionStepCuda* step;
  const __nv_bfloat16* q;
  const __nv_bfloat16* qkv;
  __nv_bfloat16* attended;
  std::byte* kv;
  float* partials;
  uint32_t* arrivals;
  uint32_t* to_clear;
  uint32_t* failed;
  int64_t qkv_stride, attended_stride, block_stride, partial_floats;
  int stages, k_offset, v_offset, kv_heads, num_heads, head_dim, group_heads, parts, window;
  float scale_log2;  // 1 / sqrt(head_dim), for powers of two
  bool early;
};

template <class T>
__device__ __forceinline__ const T* step_data(const AttentionStepCuda* step, int offset) {
  return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(step) + offset);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

constexpr int kChunks = kTilePositions / kChunk;
constexpr float kNothing = -INFINITY;

// One row's running softmax for 8 heads: a lane holds dimensions g, g + 8 of every 16 and heads 2t,
// 2t + 1 (g = lane / 4, t = lane % 4).
template <int kDim>
struct RowSum {
  float out[kDim / 16][4];
  float most[2];
  float weight[2];  // of the lane's own keys until close(), then of all

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < kDim / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[m][i] = 0.0f;
    }
    most[0] = most[1] = kNothing;
    weight[0] = weight[1] = 0.0f;
  }
  __device__ __forceinline__ void close() {
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        weight[i] = __fadd_rn(weight[i], __shfl_xor_sync(~0u, weight[i], lanes));
      }
    }
  }
};

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
  return y;
}

// Factors that bring two sums to their common maximum. Spans without a key have no part here.
__device__ __forceinline__ float2 merge_factors(float most, float other_most) {
  const float top = fmaxf(most, other_most);
  return make_float2(power_of_two(most - top), power_of_two(other_most - top));
}
__device__ __forceinline__ float merged(float value, float other, float2 factors) {
  return __fmaf_rn(other, factors.y, __fmul_rn(value, factors.x));
}

// The next span of a row joins the sum of those before it.
template <int kDim>
__device__ __forceinline__ void merge(RowSum<kDim>& sum, const RowSum<kDim>& next) {
  float2 factors[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    factors[i] = merge_factors(sum.most[i], next.most[i]);
    sum.most[i] = fmaxf(sum.most[i], next.most[i]);
    sum.weight[i] = merged(sum.weight[i], next.weight[i], factors[i]);
  }
#pragma unroll
  for (int m = 0; m < kDim / 16; ++m) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum.out[m][i] = merged(sum.out[m][i], next.out[m][i], factors[i & 1]);
  }
}

// What a warp needs to know of the row it works on.
template <int kDim>
struct RowTask {
  uint32_t q[kDim / 32][4];  // a lane: head g, dimensions 8t .. 8t + 7 of every 32
  AttentionRowCuda row;
  const int32_t* table;
  const int32_t* ancestors;

  // Physical slot of a position that the row sees.
  __device__ __forceinline__ int slot(int position) const {
    if (position >= row.boundary) return ancestors[position - row.boundary];
    return table[position / kTilePositions] * kTilePositions + position % kTilePositions;
  }
};

// Scores of 16 keys for 8 heads; `key(half, s)` gives a lane's 16 bytes of key g (+ 8 in the upper
// half), dimensions 8t .. 8t + 7 of the s-th 32.
template <int kDim, class Key>
__device__ __forceinline__ void score_chunk(const RowTask<kDim>& task, const Key& key,
                                            float (&score)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) score[i] = 0.0f;
#pragma unroll
  for (int s = 0; s < kDim / 32; ++s) {
    const uint4 lower = key(0, s);
    const uint4 upper = key(1, s);
    mma_bf16(score, {lower.x, upper.x, lower.y, upper.y}, task.q[s][0], task.q[s][1]);
    mma_bf16(score, {lower.z, upper.z, lower.w, upper.w}, task.q[s][2], task.q[s][3]);
  }
}

// The key of a chunk whose values a lane fetches in add_chunk().
__device__ __forceinline__ int value_key(int lane) { return (lane & 7) + (lane >> 4) * 8; }

// Adds 16 keys' values by their weights. `row`: where the values of value_key(lane) lie in shared
// memory, in the piece order of slot `slot`.
template <int kDim>
__device__ __forceinline__ void add_chunk(RowSum<kDim>& sum, const float (&weight)[4], uint32_t row,
                                          int slot, int lane) {
  const uint32_t b0 = transpose_8x8(pack_bf16x2(weight[0], weight[1]));
  const uint32_t b1 = transpose_8x8(pack_bf16x2(weight[2], weight[3]));
#pragma unroll
  for (int m = 0; m < kDim / 16; ++m) {
    const int piece = 2 * m + ((lane >> 3) & 1);
    uint32_t a[4];
    load_matrices_transposed(a, row + kv_piece(piece, slot, kDim) * 16);
    mma_bf16(sum.out[m], a, b0, b1);
  }
}

// Tiles of the prefix on their way into shared memory, in the order in which the block works on
// them. Thread 0 requests; everybody waits.
template <int kDim, bool kFused>
struct TileLoader {
  uint32_t data, barriers;
  int work, tile;  // requested next
  int stage = 0;
  AttentionItemCuda item;

  // Whole chunks of 16, unless the rest of one comes from shared memory too.
  __device__ __forceinline__ static bool shares(const AttentionItemCuda& item, int tile) {
    return item.prefix_tokens >= tile * kTilePositions + (kFused ? 1 : kChunk);
  }
  // Moves on to a tile that is to be loaded; false if there is none.
  __device__ __forceinline__ bool find(const AttentionArgs& args, int num_items, int heads) {
    while (work < num_items * heads) {
      while (tile < item.end_tile) {
        if (shares(item, tile)) return true;
        ++tile;
      }
      work += gridDim.x;
      if (work < num_items * heads) load_item(args, heads);
    }
    return false;
  }
  __device__ __forceinline__ void load_item(const AttentionArgs& args, int heads) {
    item = step_data<AttentionItemCuda>(args.step, args.step->items_offset)[work / heads];
    tile = item.first_tile;
  }
  // Nothing that is read of it is written by this step.
  __device__ __forceinline__ bool is_stable() const {
    return kFused || (tile + 1) * kTilePositions <= item.stable_tokens;
  }
  __device__ __forceinline__ void request(const AttentionArgs& args, int heads) {
    const auto* rows = step_data<AttentionRowCuda>(args.step, args.step->rows_offset);
    const auto* tables = step_data<int32_t>(args.step, args.step->tables_offset);
    const int block = tables[rows[item.first_row].table + tile];
    const int kv_head = work % heads / args.parts;
    const std::byte* const keys =
        args.kv + block * args.block_stride + int64_t{kv_head} * tile_bytes(kDim);
    const uint32_t barrier = barriers + stage * 8;
    const uint32_t target = data + stage * 2 * tile_bytes(kDim);
    barrier_arrive_expecting(barrier, 2 * tile_bytes(kDim));
    bulk_copy(target, keys, tile_bytes(kDim), barrier);
    bulk_copy(target + tile_bytes(kDim), keys + int64_t{args.kv_heads} * tile_bytes(kDim),
              tile_bytes(kDim), barrier);
    stage = stage + 1 == args.stages ? 0 : stage + 1;
    ++tile;
  }
};

// Where the keys and values of positions past the prefix come from. Each gives the scores of a
// chunk that is not all prefix, and adds its values.

// From the cache in global memory, a chunk's values by way of the warp's own shared memory.
template <int kDim>
struct GatheredRows {
  const RowTask<kDim>& task;
  const std::byte* keys;
  int64_t block_stride, value_offset;
  uint32_t own_values;
  int begin, lane;  // first position of the tile

  __device__ __forceinline__ const std::byte* stored(int slot) const {
    return keys + slot / kTilePositions * block_stride + slot % kTilePositions * (kDim * 2);
  }
  __device__ __forceinline__ void request_values(int chunk) const {
    constexpr int kPieces = kDim / 8;
#pragma unroll
    for (int i = 0; i < kChunk * kPieces / 32; ++i) {
      const int key = (i * 32 + lane) / kPieces;
      const int piece = (i * 32 + lane) % kPieces;
      const int position = begin + chunk * kChunk + key;
      const bool seen = position <= task.row.position;
      const int slot = seen ? task.slot(position) : 0;
      copy_16_async(own_values + key * (kDim * 2) + kv_piece(piece, key, kDim) * 16,
                    stored(slot) + value_offset + kv_piece(piece, slot, kDim) * 16, seen);
    }
    copies_commit();
  }
  // Values of the first chunk travel while scores are computed.
  __device__ __forceinline__ void prepare(int first_chunk) const { request_values(first_chunk); }
  __device__ __forceinline__ void score(int chunk, uint32_t /*tile*/, float (&score)[4]) const {
    const std::byte* key_rows[2];
    int slots[2];
    bool seen[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = begin + chunk * kChunk + (lane >> 2) + half * 8;
      seen[half] = position <= task.row.position;
      slots[half] = seen[half] ? task.slot(position) : 0;
      key_rows[half] = stored(slots[half]);
    }
    score_chunk<kDim>(
        task,
        [&](int half, int s) {
          if (!seen[half]) return make_uint4(0, 0, 0, 0);
          return *reinterpret_cast<const uint4*>(
              key_rows[half] + kv_piece(s * 4 + (lane & 3), slots[half], kDim) * 16);
        },
        score);
  }
  __device__ __forceinline__ void add(int chunk, int first_chunk, uint32_t /*tile*/,
                                      const float (&weight)[4], RowSum<kDim>& sum) const {
    if (chunk > first_chunk) request_values(chunk);
    copies_wait();
    __syncwarp();
    const int key = value_key(lane);
    add_chunk<kDim>(sum, weight, own_values + key * (kDim * 2), key, lane);
    __syncwarp();  // before the next chunk overwrites
  }
};

// From the block's shared memory: the tile, or the extras by the row's list (kFused).
template <int kDim>
struct StagedRows {
  const RowTask<kDim>& task;
  uint32_t extras;  // keys, then values
  uint32_t list;    // of the row, a byte a position from its boundary on
  int begin, lane;

  // Shared address of a position's row, in the piece order of *slot. Positions that the row does
  // not see give any row: their scores are masked.
  __device__ __forceinline__ uint32_t row(int position, uint32_t tile, uint32_t of_extras,
                                          int* slot) const {
    if (position < task.row.boundary) {
      *slot = position - begin;
      return tile + *slot * (kDim * 2);
    }
    *slot =
        position <= task.row.position ? load_shared_byte(list + position - task.row.boundary) : 0;
    return of_extras + *slot * (kDim * 2);
  }
  __device__ __forceinline__ void prepare(int /*first_chunk*/) const {}
  __device__ __forceinline__ void score(int chunk, uint32_t tile, float (&score)[4]) const {
    uint32_t rows[2];
    int slots[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows[half] = row(begin + chunk * kChunk + (lane >> 2) + half * 8, tile, extras, &slots[half]);
    }
    score_chunk<kDim>(
        task,
        [&](int half, int s) {
          return load_shared_16(rows[half] + kv_piece(s * 4 + (lane & 3), slots[half], kDim) * 16);
        },
        score);
  }
  __device__ __forceinline__ void add(int chunk, int /*first_chunk*/, uint32_t tile,
                                      const float (&weight)[4], RowSum<kDim>& sum) const {
    int slot;
    const uint32_t values = row(begin + chunk * kChunk + value_key(lane), tile + tile_bytes(kDim),
                                extras + kMostExtras * kDim * 2, &slot);
    add_chunk<kDim>(sum, weight, values, slot, lane);
  }
};

// One tile of 64 positions joins a row's span. `shared_tile`: the prefix's keys and values of the
// tile, where the item shares it.
template <int kDim, class Rest>
__device__ __forceinline__ void attend_tile(const AttentionArgs& args, const RowTask<kDim>& task,
                                            int tile, uint32_t shared_tile, const Rest& rest,
                                            int lane, RowSum<kDim>& sum) {
  const int begin = tile * kTilePositions;
  const int g = lane >> 2;
  const int t = lane & 3;
  const int chunks = min((task.row.position - begin) / kChunk + 1, kChunks);
  const int shared_chunks = min(max(task.row.boundary - begin, 0) / kChunk, chunks);
  if (shared_chunks < chunks) rest.prepare(shared_chunks);

  float score[kChunks][4];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (c < shared_chunks) {
      const uint32_t row = shared_tile + (c * kChunk + g) * (kDim * 2);
      score_chunk<kDim>(
          task,
          [&](int half, int s) {
            const int key = c * kChunk + g + half * 8;
            return load_shared_16(row + half * 8 * (kDim * 2) +
                                  kv_piece(s * 4 + t, key, kDim) * 16);
          },
          score[c]);
    } else if (c < chunks) {
      rest.score(c, shared_tile, score[c]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[c][i] = kNothing;
    }
  }

  // Positions that the row does not see.
  const int first_seen = args.window > 0 ? task.row.position - args.window + 1 : 0;
  float most[2] = {kNothing, kNothing};
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = begin + c * kChunk + g + (i >> 1) * 8;
      score[c][i] = position <= task.row.position && position >= first_seen
                        ? __fmul_rn(score[c][i], args.scale_log2)
                        : kNothing;
      most[i & 1] = fmaxf(most[i & 1], score[c][i]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) {
      most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], lanes));
    }
    // A tile that a row works on has a key that it sees, so `most` is finite.
    most[i] = fmaxf(most[i], sum.most[i]);
    const float shrink = power_of_two(sum.most[i] - most[i]);
    sum.most[i] = most[i];
    float weight = 0.0f;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& s = score[c][half * 2 + i];
        s = power_of_two(s - most[i]);
        weight = __fadd_rn(weight, s);
      }
    }
    sum.weight[i] = __fmaf_rn(sum.weight[i], shrink, weight);
#pragma unroll
    for (int m = 0; m < kDim / 16; ++m) {
      sum.out[m][i] *= shrink;
      sum.out[m][i + 2] *= shrink;
    }
  }

#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (c < shared_chunks) {
      const int key = c * kChunk + value_key(lane);
      add_chunk<kDim>(sum, score[c], shared_tile + tile_bytes(kDim) + key * (kDim * 2), key, lane);
    } else if (c < chunks) {
      rest.add(c, shared_chunks, shared_tile, score[c], sum);
    }
  }
}

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
                    dim] = __float2bfloat16_rn(__fdiv_rn(out[i], weight[i & 1]));
    }
  }
}

// Merges 16 dimensions of one row's spans, in order.
template <int kDim>
__device__ __forceinline__ void merge_partials(const AttentionArgs& args, int row_idx,
                                               const AttentionRowCuda& row, int head, int m,
                                               int lane) {
  const int span_positions = span_tiles(row.position) * kTilePositions;
  const int first_seen = args.window > 0 ? max(row.position - args.window + 1, 0) : 0;
  const int first_span = first_seen / span_positions;
  const int spans = num_spans(row.position);
  const float* partial = args.partials + (row.first_partial + first_span) * args.partial_floats +
                         head * (kDim * 8 + 16);
  float out[4];
  float most[2], weight[2];
  constexpr int kAhead = 8;
  for (int span = first_span; span < spans; span += kAhead) {
    float4 outs[kAhead], sums[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (span + i >= spans) break;
      const float* const from = partial + i * args.partial_floats;
      outs[i] = load_through_l2(from + (m * 32 + lane) * 4);
      sums[i] = load_through_l2(from + kDim * 8 + (lane & 3) * 4);
    }
    partial += kAhead * args.partial_floats;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (span + i >= spans) break;
      const float next[4] = {outs[i].x, outs[i].y, outs[i].z, outs[i].w};
      const float next_most[2] = {sums[i].x, sums[i].y};
      const float next_weight[2] = {sums[i].z, sums[i].w};
      if (span + i == first_span) {
#pragma unroll
        for (int k = 0; k < 4; ++k) out[k] = next[k];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          most[k] = next_most[k];
          weight[k] = next_weight[k];
        }
        continue;
      }
      float2 factors[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        factors[k] = merge_factors(most[k], next_most[k]);
        most[k] = fmaxf(most[k], next_most[k]);
        weight[k] = merged(weight[k], next_weight[k], factors[k]);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) out[k] = merged(out[k], next[k], factors[k & 1]);
    }
  }
  store_attended(args, row_idx, head, m * 16, out, weight, lane);
}

template <int kDim>
__device__ __forceinline__ void load_row(const AttentionArgs& args, int row_idx,
                                         RowTask<kDim>& task) {
  task.row = step_data<AttentionRowCuda>(args.step, args.step->rows_offset)[row_idx];
  task.table = step_data<int32_t>(args.step, args.step->tables_offset) + task.row.table;
  task.ancestors = step_data<int32_t>(args.step, args.step->ancestors_offset) + task.row.ancestors;
}

__device__ __forceinline__ float2 unpack_bf16x2(uint32_t pair) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}

// Rotates a pair of vectors of two dimensions each, half a head apart. The same operations as the
// rotation of kv_rows_cuda.cu, and compiled without contraction: the same bits.
__device__ __forceinline__ void rotate(uint32_t& low, uint32_t& high, float2 cosines,
                                       float2 sines) {
  const float2 x = unpack_bf16x2(low);
  const float2 y = unpack_bf16x2(high);
  low = pack_bf16x2(x.x * cosines.x - y.x * sines.x, x.y * cosines.y - y.y * sines.y);
  high = pack_bf16x2(y.x * cosines.x + x.x * sines.x, y.y * cosines.y + x.y * sines.y);
}

// The queries of a row's heads; with kFused from the linear layer's output.
template <int kDim, bool kFused>
__device__ __forceinline__ void load_queries(const AttentionArgs& args, int row_idx, int head,
                                             int lane, RowTask<kDim>& task) {
  const int part = head % args.parts;
  const int own_head = part * 8 + (lane >> 2);
  const bool valid = own_head < args.group_heads;
  const int q_head = head / args.parts * args.group_heads + own_head;
  const int first_dim = (lane & 3) * 8;
  const __nv_bfloat16* const q =
      (kFused ? args.qkv + row_idx * args.qkv_stride + q_head * kDim
              : args.q + (int64_t{row_idx} * args.num_heads + q_head) * kDim) +
      first_dim;
#pragma unroll
  for (int s = 0; s < kDim / 32; ++s) {
    const uint4 v = valid ? *reinterpret_cast<const uint4*>(q + s * 32) : make_uint4(0, 0, 0, 0);
    task.q[s][0] = v.x;
    task.q[s][1] = v.y;
    task.q[s][2] = v.z;
    task.q[s][3] = v.w;
  }
  if constexpr (kFused) {
    const float* const cosines =
        step_data<float>(args.step, args.step->angles_offset) + row_idx * kDim + first_dim;
#pragma unroll
    for (int s = 0; s < kDim / 64; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const at = cosines + s * 32 + i * 2;
        rotate(task.q[s][i], task.q[s + kDim / 64][i], *reinterpret_cast<const float2*>(at),
               *reinterpret_cast<const float2*>(at + kDim / 2));
      }
    }
  }
}

// Brings an item's extra keys and values into shared memory, and its rows' own to the cache. A warp
// takes an extra at a time.
template <int kDim>
__device__ __forceinline__ void stage_extras(const AttentionArgs& args,
                                             const AttentionItemCuda& item, int kv_head,
                                             uint32_t extras, int warp, int lane) {
  const auto* const list = step_data<int32_t>(args.step, args.step->extras_offset) + item.extras;
  const auto* const kv_slots = step_data<int32_t>(args.step, args.step->kv_slots_offset);
  const int64_t value_offset = int64_t{args.kv_heads} * tile_bytes(kDim);
  const auto stored = [&](int slot) {
    return args.kv + slot / kTilePositions * args.block_stride +
           int64_t{kv_head} * tile_bytes(kDim) + slot % kTilePositions * (kDim * 2);
  };
  constexpr int kPieces = kDim / 8;
  for (int extra = warp; extra < item.num_extras; extra += kWarps) {
    const uint32_t key_row = extras + extra * (kDim * 2);
    const uint32_t value_row = key_row + kMostExtras * kDim * 2;
    const int slot = list[extra];
    if (slot >= 0) {
      for (int i = lane; i < 2 * kPieces; i += 32) {
        const int piece = i % kPieces;
        const bool is_value = i >= kPieces;
        const auto v = *reinterpret_cast<const uint4*>(
            stored(slot) + (is_value ? value_offset : 0) + kv_piece(piece, slot, kDim) * 16);
        store_shared_16((is_value ? value_row : key_row) + kv_piece(piece, extra, kDim) * 16, v);
      }
      continue;
    }
    const int row = ~slot;
    const bool appends =
        item.appends != 0 && row >= item.first_row && row < item.first_row + item.num_rows;
    const int own_slot = appends ? kv_slots[row] : 0;
    const __nv_bfloat16* const k =
        args.qkv + row * args.qkv_stride + args.k_offset + kv_head * kDim;
    const __nv_bfloat16* const v =
        args.qkv + row * args.qkv_stride + args.v_offset + kv_head * kDim;
    const float* const cosines = step_data<float>(args.step, args.step->angles_offset) + row * kDim;
    const int i = 2 * lane;
    if (i < kDim / 2) {
      uint32_t low = *reinterpret_cast<const uint32_t*>(k + i);
      uint32_t high = *reinterpret_cast<const uint32_t*>(k + kDim / 2 + i);
      rotate(low, high, *reinterpret_cast<const float2*>(cosines + i),
             *reinterpret_cast<const float2*>(cosines + kDim / 2 + i));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int piece = (half * (kDim / 2) + i) / 8;
        const int in_piece = i % 8 * 2;
        const uint32_t pair = half == 0 ? low : high;
        store_shared_4(key_row + kv_piece(piece, extra, kDim) * 16 + in_piece, pair);
        if (appends) {
          *reinterpret_cast<uint32_t*>(stored(own_slot) + kv_piece(piece, own_slot, kDim) * 16 +
                                       in_piece) = pair;
        }
      }
    }
    if (lane < kPieces) {
      const auto piece_bits = *reinterpret_cast<const uint4*>(v + lane * 8);
      store_shared_16(value_row + kv_piece(lane, extra, kDim) * 16, piece_bits);
      if (appends) {
        *reinterpret_cast<uint4*>(stored(own_slot) + value_offset +
                                  kv_piece(lane, own_slot, kDim) * 16) = piece_bits;
      }
    }
  }
}

// Registers a thread: beside this kernel's block an SM has room for one of a linear layer
// (linear_cuda.cu). Prefill has no need of that.
constexpr int registers(int dim, AttentionMode mode) {
  return mode == AttentionMode::kWhole || dim > 128 ? 255 : 144;
}

template <int kDim, AttentionMode kMode>
__global__ void __maxnreg__(registers(kDim, kMode))
    attention_kernel(const __grid_constant__ AttentionArgs args) {
  constexpr bool kWhole = kMode == AttentionMode::kWhole;
  constexpr bool kFused = kMode == AttentionMode::kFused;
  using Loader = TileLoader<kDim, kFused>;
  extern __shared__ __align__(128) std::byte shared[];
  const uint32_t base = shared_address(shared);
  const uint32_t tiles = base + kAttentionBarrierBytes;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const uint32_t own = tiles + args.stages * 2 * tile_bytes(kDim);
  const uint32_t list = own + 2 * kMostExtras * kDim * 2 + warp * kMostExtras;
  const int heads = args.kv_heads * args.parts;
  if (threadIdx.x == 0) {
    for (int i = 0; i < args.stages; ++i) barrier_init(base + i * 8, 1);
    barrier_init_fence();
  }

  Loader loader;
  loader.data = tiles;
  loader.barriers = base;
  loader.work = blockIdx.x;
  int in_flight = 0;
  if (!args.early) wait_for_previous_kernel();
  const int num_items = args.step->num_items;
  if (threadIdx.x == 0 && loader.work < num_items * heads) {
    loader.load_item(args, heads);
    while (in_flight < args.stages && loader.find(args, num_items, heads) &&
           (!args.early || loader.is_stable())) {
      loader.request(args, heads);
      ++in_flight;
    }
  }
  if (args.early) wait_for_previous_kernel();
  launch_dependents();
  if (threadIdx.x == 0) {
    while (in_flight < args.stages && loader.find(args, num_items, heads)) {
      loader.request(args, heads);
      ++in_flight;
    }
  }
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < args.step->num_groups * heads;
       i += gridDim.x * kThreads) {
    args.to_clear[i] = 0;
  }
  __syncthreads();  // barriers are initialized

  int stage = 0;
  uint32_t parity = 0;
  for (int work = blockIdx.x; work < num_items * heads; work += gridDim.x) {
    const AttentionItemCuda item =
        step_data<AttentionItemCuda>(args.step, args.step->items_offset)[work / heads];
    const int head = work % heads;
    const bool has_row = warp < item.num_rows;
    const int row_idx = item.first_row + warp;
    RowTask<kDim> task;
    RowSum<kDim> span;
    [[maybe_unused]] RowSum<kDim> total;
    int first_tile = 0;
    [[maybe_unused]] bool started = false;
    int tiles_a_span = 1;
    if (has_row) {
      load_row<kDim>(args, row_idx, task);
      load_queries<kDim, kFused>(args, row_idx, head, lane, task);
      const int first_seen = args.window > 0 ? max(task.row.position - args.window + 1, 0) : 0;
      first_tile = first_seen / kTilePositions;
      tiles_a_span = span_tiles(task.row.position);
    }
    if constexpr (kFused) {
      __syncthreads();  // nobody reads the last item's extras
      if (item.num_extras > 0) {
        if (has_row) {
          for (int i = lane; i <= task.row.position - task.row.boundary; i += 32) {
            store_shared_byte(list + i, task.ancestors[i]);
          }
        }
        stage_extras<kDim>(args, item, head / args.parts, own, warp, lane);
        __syncthreads();
      }
    }
    [[maybe_unused]] const std::byte* const keys =
        args.kv + int64_t{head / args.parts} * tile_bytes(kDim);
    span.clear();
    for (int tile = item.first_tile; tile < item.end_tile; ++tile) {
      const bool shares = Loader::shares(item, tile);
      if (shares) barrier_wait(base + stage * 8, parity);
      if (has_row && tile >= first_tile && tile * kTilePositions <= task.row.position) {
        const uint32_t shared_tile = tiles + stage * 2 * tile_bytes(kDim);
        if constexpr (kFused) {
          const StagedRows<kDim> rest{.task = task,
                                      .extras = own,
                                      .list = list,
                                      .begin = tile * kTilePositions,
                                      .lane = lane};
          attend_tile<kDim>(args, task, tile, shared_tile, rest, lane, span);
        } else {
          const GatheredRows<kDim> rest{.task = task,
                                        .keys = keys,
                                        .block_stride = args.block_stride,
                                        .value_offset = int64_t{args.kv_heads} * tile_bytes(kDim),
                                        .own_values = own + warp * chunk_bytes(kDim),
                                        .begin = tile * kTilePositions,
                                        .lane = lane};
          attend_tile<kDim>(args, task, tile, shared_tile, rest, lane, span);
        }
        const bool last = (tile + 1) * kTilePositions > task.row.position;
        if (last || (tile + 1) % tiles_a_span == 0) {
          span.close();
          if constexpr (!kWhole) {
            store_partial<kDim>(
                span,
                args.partials +
                    (task.row.first_partial + tile / tiles_a_span) * args.partial_floats +
                    head * (kDim * 8 + 16),
                lane);
          } else if (started) {
            merge<kDim>(total, span);
          } else {
            total = span;
            started = true;
          }
          span.clear();
        }
      }
      if (shares) {
        __syncthreads();  // everybody is done with the stage
        if (threadIdx.x == 0 && loader.find(args, num_items, heads)) loader.request(args, heads);
        if (++stage == args.stages) {
          stage = 0;
          parity ^= 1;
        }
      }
    }
    if constexpr (kWhole) {
      if (has_row) {
#pragma unroll
        for (int m = 0; m < kDim / 16; ++m) {
          store_attended(args, row_idx, head, m * 16, total.out[m], total.weight, lane);
        }
      }
    } else {
      __syncthreads();  // every warp's partial results are written
      if (threadIdx.x == 0) arrive_release(args.arrivals + item.group * heads + head);
    }
  }

  if constexpr (kWhole) return;
  // A share of the merging: a warp takes 16 dimensions of one row.
  constexpr int kParts = kDim / 16;
  const int units = args.step->num_rows * heads * kParts;
  const auto* const rows = step_data<AttentionRowCuda>(args.step, args.step->rows_offset);
  for (int unit = blockIdx.x * kWarps + warp; unit < units; unit += gridDim.x * kWarps) {
    const int row_idx = unit / (heads * kParts);
    const int head = unit / kParts % heads;
    const AttentionRowCuda row = rows[row_idx];
    const bool arrived = wait_acquire(args.arrivals + row.group * heads + head,
                                      static_cast<uint32_t>(row.group_items));
    if (!arrived) {
      if (lane == 0) *args.failed = 1;
      return;
    }
    __syncwarp();
    merge_partials<kDim>(args, row_idx, row, head, unit % kParts, lane);
  }
}

#else

// Below sm_90 there is neither a bulk copy nor dependent launch; never launched there.
template <int kDim, AttentionMode kMode>
__global__ void attention_kernel(const __grid_constant__ AttentionArgs) {}

#endif

constexpr int kSharedLimit = 227 * 1024;  // of a block, sm_90

using Kernel = void (*)(AttentionArgs);

template <AttentionMode kMode>
Kernel kernel_for(int padded_dim) {
  if constexpr (kMode == AttentionMode::kFused) {
    return padded_dim == 64 ? attention_kernel<64, kMode> : attention_kernel<128, kMode>;
  } else {
    return padded_dim == 32    ? attention_kernel<32, kMode>
           : padded_dim == 64  ? attention_kernel<64, kMode>
           : padded_dim == 128 ? attention_kernel<128, kMode>
                               : attention_kernel<256, kMode>;
  }
}

Kernel kernel_for(int padded_dim, AttentionMode mode) {
  return mode == AttentionMode::kWhole   ? kernel_for<AttentionMode::kWhole>(padded_dim)
         : mode == AttentionMode::kSplit ? kernel_for<AttentionMode::kSplit>(padded_dim)
                                         : kernel_for<AttentionMode::kFused>(padded_dim);
}

}  // namespace

Status prepare_attention_cuda() {
  for (const AttentionMode mode :
       {AttentionMode::kWhole, AttentionMode::kSplit, AttentionMode::kFused}) {
    for (const int dim : {32, 64, 128, 256}) {
      const bool fused = mode == AttentionMode::kFused;
      if (fused && !can_fuse_rope(dim, false)) continue;
      FORERUN_CUDA_RETURN_IF_ERROR(
          cudaFuncSetAttribute(
              kernel_for(dim, mode), cudaFuncAttributeMaxDynamicSharedMemorySize,
              shared_bytes(dim, fused, stages_for(dim, fused, true, kSharedLimit))),
          "loading the attention kernels");
      FORERUN_RETURN_IF_ERROR(
          prefer_shared_memory(kernel_for(dim, mode), "loading the attention kernels"));
    }
  }
  return {};
}

Status attention_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const PagedKvCuda& kv = call.kv;
  if (kv.head_dim < 1 || kv.head_dim > 256 || kv.num_kv_heads < 1 ||
      call.num_heads % kv.num_kv_heads != 0) {
    return {StatusCode::kInvalidArgument,
            "attention on a GPU: " + std::to_string(call.num_heads) + " heads of " +
                std::to_string(kv.head_dim) + " dimensions over " +
                std::to_string(kv.num_kv_heads) +
                " key/value heads; head dimensions up to 256 and whole groups are accepted"};
  }
  const int dim = padded_head_dim_cuda(kv.head_dim);
  const bool fused = call.mode == AttentionMode::kFused;
  if (fused && !can_fuse_rope(kv.head_dim, false)) {
    return {StatusCode::kInvalidArgument, "attention on a GPU: heads of " +
                                              std::to_string(kv.head_dim) +
                                              " dimensions are rotated by a kernel of their own"};
  }
  AttentionArgs args;
  args.step = call.step;
  args.q = call.q;
  args.qkv = call.qkv;
  args.qkv_stride = call.qkv_stride;
  args.k_offset = call.k_offset;
  args.v_offset = call.v_offset;
  args.attended = call.attended;
  args.kv = kv.data;
  args.partials = call.partials;
  args.arrivals = call.arrivals;
  args.to_clear = call.to_clear;
  args.failed = call.failed;
  args.attended_stride = call.attended_stride;
  args.block_stride = kv.block_stride_bytes;
  args.partial_floats = partial_floats(call.num_heads, kv.num_kv_heads, kv.head_dim);
  args.kv_heads = kv.num_kv_heads;
  args.num_heads = call.num_heads;
  args.head_dim = kv.head_dim;
  args.group_heads = call.num_heads / kv.num_kv_heads;
  args.parts = query_parts(call.num_heads, kv.num_kv_heads);
  args.window = call.window;
  args.scale_log2 = 1.4426950408889634f / sqrtf(static_cast<float>(kv.head_dim));
  args.early = call.early;
  args.stages = stages_for(dim, fused, call.long_contexts, kSharedLimit);
  int device = 0;
  int multiprocessors = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device), "asking for the current GPU");
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
      "asking for the number of multiprocessors");
  return launch_dependent(kernel_for(dim, call.mode), dim3(static_cast<unsigned>(multiprocessors)),
                          dim3(kThreads),
                          static_cast<size_t>(shared_bytes(dim, fused, args.stages)), stream,
                          "launching attention", args);
}

}  // namespace forerun::cuda
