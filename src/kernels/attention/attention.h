// Attention of any rows over a paged KV cache: prefill, decoding and token trees alike.
//
// Sums follow logical positions, never slots. Positions fall into fixed tiles of 64 and spans of
// 256; a span is a running softmax over its tiles in ascending order, and spans are merged in
// ascending order. The order of summation depends on the row's last visible position and the window
// alone, which gives batch invariance: a row's bits do not depend on the other rows, on which slots
// hold its positions, on whether they come through the block table or the row's own list, or on the
// team's size.
//
// Sums are f32. Products are f32 too: keys and values of a bf16 cache are widened. With a bf16
// cache and Isa::kAvx512Bf16 or kAmx, products are bf16, and queries and probabilities are rounded
// to bf16 (attention/cpu/bf16_dot.h). Bits therefore belong to an instruction set, as those of
// linear layers do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/tensor_view.h"
#include "device/cpu/team.h"

namespace forerun {

inline constexpr int32_t kAttentionTile = 64;   // positions a tile = tokens a KV block
inline constexpr int32_t kAttentionSpan = 256;  // positions that one member reduces without a merge

// Head vectors in the cache and in the kernels' scratch are padded with zeros to a multiple of 32.
constexpr int64_t padded_head_dim(int64_t head_dim) { return (head_dim + 31) / 32 * 32; }

// Keys lie in pieces of 16 bytes (8 dimensions in bf16, 4 in f32), with the pieces of 4
// neighbouring slots side by side: one 64-byte vector then holds the same dimensions of 4 keys, and
// the scores of 16 keys need one short reduction instead of 16.
inline constexpr int32_t kKeyGroup = 4;
inline constexpr int32_t kKeyPieceBytes = 16;

// One layer of a paged cache. A block holds K [kv_head][64 / 4][pieces][4][16 bytes], then
// V [kv_head][64][padded head_dim]. The padding must be zero: fresh memory is, and nothing writes
// it.
struct PagedKv {
  std::byte* data = nullptr;       // the layer's part of block 0; 64-byte aligned
  int64_t block_stride_bytes = 0;  // bytes from a block to the next
  DType dtype = DType::kBf16;      // kBf16 or kF32
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;

  int64_t head_bytes() const {
    return padded_head_dim(head_dim) * static_cast<int64_t>(dtype_bytes(dtype));
  }
  // Bytes of K and V of one layer in one block.
  int64_t layer_bytes() const { return 2 * num_kv_heads * kAttentionTile * head_bytes(); }
  // Address of the first piece of a slot's key; its next pieces are kKeyGroup * kKeyPieceBytes
  // apart.
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

// A row and what it sees. Position q < boundary lies in slot q, and position q in [boundary,
// last_visible] in slot ancestors[q - boundary]; slot s lies in block block_table[s / 64] at offset
// s % 64.
//
// Positions count the tokens that the row sees, in the order of the text: `last_visible` is
// StepRow::visible - 1. It is the row's place in the text if the row sees everything before it, and
// lower otherwise. Attention does not rotate: queries and keys come rotated.
struct AttentionRow {
  int32_t last_visible = 0;
  int32_t boundary = 0;
  int32_t slot = 0;  // where the row's own KV is written
  const int32_t* block_table = nullptr;
  const int32_t* ancestors = nullptr;
};

// How the rows of a forward are assigned to a team. Built by one thread, read by all; the same for
// all layers. Reusable: keeps its memory.
struct AttentionPlan {
  struct Block {
    int32_t first_row;
    int32_t num_rows;  // neighbours in a sequence; they share tiles below their boundaries
  };
  std::vector<Block> blocks;
  bool split_spans = false;  // few rows and long contexts: members share the spans of a row
  int32_t num_spans = 0;     // spans of the row that has the most

  void build(std::span<const AttentionRow> rows, int32_t num_heads, int32_t num_kv_heads,
             int32_t team_size);
};

// Scratch of one device, for one call at a time. reserve() is for one thread, outside of a run.
class AttentionScratch {
 public:
  void reserve(int32_t team_size, int32_t num_heads, int32_t num_kv_heads, int32_t head_dim);
  // Room for the partial results of `plan`; call after each build().
  void reserve_partials(const AttentionPlan& plan, int64_t num_rows, int32_t num_heads,
                        int32_t head_dim);

 private:
  friend struct AttentionCall;
  int64_t member_floats_ = 0;
  std::vector<float> members_;
  std::vector<float> partials_;  // [row][head][span][state]
};

// Rounds k and v [num_kv_heads * head_dim] to the cache's type and writes them to `row`'s slot, for
// one KV head. Called by one member for each (row, head).
void append_kv_head(const float* k, const float* v, const AttentionRow& row, int32_t kv_head,
                    const PagedKv& kv);

// Copies K and V of one KV head from one slot to another.
void copy_kv_head(const PagedKv& kv, int32_t kv_head, int32_t from_block, int32_t from_offset,
                  int32_t to_block, int32_t to_offset);
// The same for all KV heads of the layer.
void copy_kv_slot(const PagedKv& kv, int32_t from_block, int32_t from_offset, int32_t to_block,
                  int32_t to_offset);

// Collective: out [rows][num_heads * head_dim] = softmax(q · Kᵀ / sqrt(head_dim)) · V per head,
// over the positions that each row sees: up to last_visible and above last_visible - window (window
// 0: all). q has out's shape. The caller syncs before (all KV written) and after. Ends without a
// sync; has one inside where plan.split_spans.
void attention(const Team& team, MatrixView<const float> q, std::span<const AttentionRow> rows,
               const PagedKv& kv, int32_t window, const AttentionPlan& plan,
               AttentionScratch* scratch, MatrixView<float> out);

// Reference twin: plain loops in double, one row after another. Single-threaded.
void attention_ref(MatrixView<const float> q, std::span<const AttentionRow> rows, const PagedKv& kv,
                   int32_t window, MatrixView<float> out);

}  // namespace forerun
