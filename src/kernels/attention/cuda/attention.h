// Attention on a GPU for any rows over a paged cache: prefill, decoding and token trees alike
// (SwiftSpec §3.3's tree attention; the mask comes as each row's ancestor list, by logical
// position). attention/cuda/plan.h defines the order of sums.
//
// Queries, keys and values are bf16, sums are f32. All functions submit to a stream and return
// without waiting; kernels take part in programmatic dependent launch (LinearCall::dependent says
// what that asks of their neighbours).
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "forerun/status.h"
#include "kernels/attention/cuda/plan.h"
#include "kernels/cuda/activation_format.h"

namespace forerun::cuda {

// Returns the padded size of head vectors, for which kernels exist: 64, 128 or 256.
constexpr int padded_head_dim_cuda(int head_dim) {
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}

// One layer of a paged cache. A block holds K [kv_head][64][padded head_dim], then V likewise,
// bf16, in panels of 64 dimensions whose 16-byte pieces are in an order that depends on the slot
// (attention/cuda/kv_layout.h): a tile that is copied into shared memory without a change is an
// operand of the tensor cores.
struct PagedKvCuda {
  std::byte* data = nullptr;  // the layer's part of block 0, 128-byte aligned
  int64_t block_stride_bytes = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;

  constexpr int64_t tile_bytes() const {
    return int64_t{kTilePositions} * padded_head_dim_cuda(head_dim) * 2;
  }
  constexpr int64_t layer_bytes() const { return 2 * num_kv_heads * tile_bytes(); }
};

// Header of the per-step data that kernels read, in device memory, 16-byte aligned. Offsets are
// bytes from the header.
struct alignas(16) AttentionStepCuda {
  int32_t num_rows = 0;
  int32_t num_items = 0;
  int32_t num_query_tiles = 0;
  int32_t rows_offset = 0;       // AttentionRowCuda [num_rows]
  int32_t items_offset = 0;      // AttentionItemCuda [num_items]
  int32_t tables_offset = 0;     // int32
  int32_t ancestors_offset = 0;  // int32
  int32_t extras_offset = 0;     // int32, kSplitKvFusedRope and is_decode_cluster() only
  int32_t kv_slots_offset = 0;   // int32 [rows]: block * 64 + offset of the row's own KV, -1: none
  int32_t angles_offset = 0;     // f32 [rows][head_dim]: cosines, then sines
  int32_t prefix_items_offset = 0;  // AttentionItemCuda [num_prefix_items]
  int32_t num_prefix_items = 0;
  int32_t prompt_items_offset = 0;  // AttentionItemCuda [num_prompt_items]
  int32_t num_prompt_items = 0;
  int32_t workers_offset = 0;  // AttentionWorkerCuda [num_workers]
  int32_t num_workers = 0;
  int32_t runs_offset = 0;    // AttentionRunCuda
  int32_t merges_offset = 0;  // AttentionMergeCuda [num_merges]
  int32_t num_merges = 0;
  int32_t unused = 0;
};

// A call that rotates queries and keys by their positions, after a normalization over each head if
// the weights are given (Qwen3), and writes keys and values to the cache.
struct RopeAppendCall {
  const AttentionStepCuda* step = nullptr;
  const __nv_bfloat16* qkv = nullptr;  // [rows][qkv_stride]: heads of Q, then at k_offset, v_offset
  int64_t qkv_stride = 0;
  int32_t k_offset = 0, v_offset = 0;
  __nv_bfloat16* q = nullptr;  // [rows][num_heads][padded head_dim], written whole
  int32_t num_heads = 0;
  int32_t rows = 0;  // at least step->num_rows
  PagedKvCuda kv;
  const float* q_norm = nullptr;  // [head_dim], or null
  const float* k_norm = nullptr;
  float eps = 0;
};
Status rope_append_cuda(const RopeAppendCall& call, cudaStream_t stream);

struct AttentionCallCuda {
  const AttentionStepCuda* step = nullptr;
  // Shapes are as in RopeAppendCall. Kernels with fuses_rope_append() read `qkv`, the others `q`.
  const __nv_bfloat16* q = nullptr;
  const __nv_bfloat16* qkv = nullptr;
  int64_t qkv_stride = 0;
  int32_t k_offset = 0, v_offset = 0;
  uint16_t* attended = nullptr;  // [rows][num_heads * head_dim], in attended_format
  ActivationFormat attended_format = ActivationFormat::kBf16;
  int64_t attended_stride = 0;
  int32_t num_heads = 0;
  PagedKvCuda kv;
  int32_t window = 0;         // a row attends to its last `window` positions; 0 for all
  float* partials = nullptr;  // AttentionPlanCuda::num_partials * partial_floats()
  // [num_query_tiles * kv parts]. `arrivals` must be zero at the call and is undefined afterwards.
  // The call zeroes `to_clear`, which the next call takes as its `arrivals`.
  uint32_t* arrivals = nullptr;
  uint32_t* to_clear = nullptr;
  uint32_t* failed = nullptr;  // set if a block gave up waiting for another one
  // True if the step's data and the cache below stable_tokens were complete before the last kernel
  // but one began: the kernel then loads them before it waits for the previous kernel.
  bool early = false;
  AttentionKernel kernel = AttentionKernel::kSplitKv;  // AttentionPlanCuda::kernel
  SharedPrefix shared_prefix = SharedPrefix::kNone;    // AttentionPlanCuda::shared_prefix
  int32_t rows = 1;  // approximate rows of the step; only sizes the grid of is_decode_cluster()
};
Status attention_cuda(const AttentionCallCuda& call, cudaStream_t stream);

// Returns whether kernels that apply RoPE themselves (fuses_rope_append()) support such heads. They
// cannot normalize over a head.
constexpr bool can_fuse_rope(int head_dim, bool qk_norm) {
  return !qk_norm && (head_dim == 64 || head_dim == 128);
}

// Returns the number of parts, with at most 8 heads each, into which the query heads of a key/value
// head are cut.
constexpr int query_parts(int num_heads, int num_kv_heads) {
  return (num_heads / num_kv_heads + 7) / 8;
}
// Returns the number of query heads per part.
constexpr int query_columns(int num_heads, int num_kv_heads) {
  const int heads = num_heads / num_kv_heads;
  return heads < 8 ? heads : 8;
}
// Returns the floats of one partial result for all key/value heads. Each part has the weighted sums
// of its heads, then each head's largest score and sum of exponentials.
constexpr int64_t partial_floats(int num_heads, int num_kv_heads, int head_dim) {
  const int columns = query_columns(num_heads, num_kv_heads);
  return int64_t{num_kv_heads} * query_parts(num_heads, num_kv_heads) *
         (columns * padded_head_dim_cuda(head_dim) + (columns + 1) / 2 * 4);
}

// Copies cache rows in all layers: moves[i] copies physical slot .from (block * 64 + offset) to
// .to, as if every source were read before any target is written. There may be at most kMaxKvMoves
// moves; in sequence order each target must be at or below its source, and sources and targets must
// ascend. `layer_stride_bytes` is the distance between two layers' parts of a block.
inline constexpr int kMaxKvMoves = 256;
struct KvMoveCuda {
  int32_t from = 0, to = 0;
};
Status move_kv_cuda(const PagedKvCuda& first_layer, int32_t num_layers, int64_t layer_stride_bytes,
                    std::span<const KvMoveCuda> moves, cudaStream_t stream);

// Loads the kernels on the current device. Call it once per device, before any graph is captured.
Status prepare_attention_cuda();
Status prepare_rope_append_cuda();

}  // namespace forerun::cuda
