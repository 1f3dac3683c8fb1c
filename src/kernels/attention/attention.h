// Attention of any rows over a paged KV cache: prefill, decoding and token trees alike.
//
// Sums follow logical positions, never slots. Positions fall into fixed tiles of 64 and spans of
// 256; a span is a running softmax over its tiles in ascending order, and spans are merged in
// ascending order. The order of summation depends only on the row's last visible position and the
// window, which gives batch invariance: a row's bits do not depend on other rows, on the slots of
// its positions, on whether it finds them through the block table or its own list, or on the team's
// size.
//
// Sums are f32. Products are f32 too: keys and values of a bf16 cache are widened. With a bf16
// cache and Isa::kAvx512Bf16 or kAmx, products are bf16, and queries and probabilities are rounded
// to bf16 (attention/cpu/bf16_dot.h). So bits depend on the instruction set, as those of linear
// layers do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/tensor_view.h"
#include "device/cpu/team.h"

namespace forerun {

inline constexpr int32_t kAttentionTile = 64;   // positions per tile = tokens per KV block
inline constexpr int32_t kAttentionSpan = 256;  // positions that one member reduces without a merge

// Head vectors in the cache and in the kernels' scratch are padded with zeros to a multiple of 32.
constexpr int64_t padded_head_dim(int64_t head_dim) { return (head_dim + 31) / 32 * 32; }

// Keys lie in pieces of 16 bytes (8 dimensions in bf16, 4 in f32), with the pieces of 4
// neighbouring slots side by side: one 64-byte vector then holds the same dimensions of 4 keys, and
// the scores of 16 keys need one short reduction instead of 16.
inline constexpr int32_t kKeyGroup = 4;
inline constexpr int32_t kKeyPieceBytes = 16;

// One layer of a paged cache. A block holds K [kv_head][64 / 4][pieces][4][16 bytes], then V
// [kv_head][64][padded head_dim]. The padding must be zero: new memory is, and no kernel writes it.
struct PagedKv {
  std::byte* data = nullptr;       // the layer's part of block 0; 64-byte aligned
  int64_t block_stride_bytes = 0;  // bytes between the starts of two KV blocks
  DType dtype = DType::kBf16;      // kBf16 or kF32
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;

  int64_t head_bytes() const {
    return padded_head_dim(head_dim) * static_cast<int64_t>(dtype_bytes(dtype));
  }
  // Returns the bytes of K and V of one layer in one block.
  int64_t layer_bytes() const { return 2 * num_kv_heads * kAttentionTile * head_bytes(); }
  // Returns the address of the first piece of a slot's key; its next pieces are kKeyGroup *
  // kKeyPieceBytes apart.
  std::byte* key(int32_t block, int32_t offset, int32_t kv_head) const {
    return data + block * block_stride_bytes +
           (static_cast<int64_t>(kv_head) * kAttentionTile + offset / kKeyGroup * kKeyGroup) *
               head_bytes() +
           offset % kKeyGroup * kKeyPieceBytes;
  }
  std::byte* value(int32_t block, int32_t offset, int32_t kv_head) const {
    return data + block * block_stride_bytes + layer_bytes() / 2 +
           (static_cast<int64_t>(kv_head) * kAttentionTile + offset) * head_bytes();
  }
};

// A row and the tokens that it attends to. Position q < boundary lies in slot q, and position q in
// [boundary, last_visible] in slot ancestors[q - boundary]; slot s lies in block block_table[s /
// 64] at offset s % 64.
//
// Positions count the visible tokens in sequence order: `last_visible` is StepRow::visible - 1. It
// is the row's position in the sequence if the row attends to everything before it, and lower
// otherwise. Attention does not apply RoPE: queries and keys come rotated.
struct AttentionRow {
  int32_t last_visible = 0;
  int32_t boundary = 0;
  int32_t slot = 0;  // slot of the row's own KV
  const int32_t* block_table = nullptr;
  const int32_t* ancestors = nullptr;
};

// The assignment of a forward pass's rows to a team. One thread builds it, all threads read it; it
// is the same for all layers, and reuses its memory.
struct AttentionPlan {
  struct Block {
    int32_t first_row;
    int32_t num_rows;  // adjacent rows of a sequence; they share tiles below their boundaries
  };
  std::vector<Block> blocks;
  bool split_spans = false;  // few rows and long contexts: members share the spans of a row
  int32_t num_spans = 0;     // largest number of spans of a row

  void build(std::span<const AttentionRow> rows, int32_t num_heads, int32_t num_kv_heads,
             int32_t team_size);
};

// Scratch memory of one device, for one call at a time. Only one thread may call reserve(), outside
// of a run.
class AttentionScratch {
 public:
  void reserve(int32_t team_size, int32_t num_heads, int32_t num_kv_heads, int32_t head_dim);
  // Makes room for the partial results of `plan`; call it after each build().
  void reserve_partials(const AttentionPlan& plan, int64_t num_rows, int32_t num_heads,
                        int32_t head_dim);

 private:
  friend struct AttentionCall;
  int64_t member_floats_ = 0;
  std::vector<float> members_;
  std::vector<float> partials_;  // [row][head][span][state]
};

// Rounds k and v [num_kv_heads * head_dim] to the cache's type and writes them to `row`'s slot, for
// one KV head. One member calls it for each (row, head).
void append_kv_head(const float* k, const float* v, const AttentionRow& row, int32_t kv_head,
                    const PagedKv& kv);

// Copies K and V of one KV head from one slot to another.
void copy_kv_head(const PagedKv& kv, int32_t kv_head, int32_t from_block, int32_t from_offset,
                  int32_t to_block, int32_t to_offset);
// Copies K and V of all KV heads of the layer from one slot to another.
void copy_kv_slot(const PagedKv& kv, int32_t from_block, int32_t from_offset, int32_t to_block,
                  int32_t to_offset);

// Collective: out [rows][num_heads * head_dim] = softmax(q · Kᵀ / sqrt(head_dim)) · V per head,
// over the visible positions of each row: up to last_visible and above last_visible - window (all
// if window is 0). q has out's shape. The caller syncs before the call, when all KV is written, and
// after it. The function ends without a sync, but syncs inside if plan.split_spans is set.
void attention(const Team& team, MatrixView<const float> q, std::span<const AttentionRow> rows,
               const PagedKv& kv, int32_t window, const AttentionPlan& plan,
               AttentionScratch* scratch, MatrixView<float> out);

// Reference implementation in plain double loops, one row after another. Single-threaded.
void attention_ref(MatrixView<const float> q, std::span<const AttentionRow> rows, const PagedKv& kv,
                   int32_t window, MatrixView<float> out);

}  // namespace forerun
