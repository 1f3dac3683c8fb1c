// The narrow waist: a Step is rows of tokens of any number of sequences, run once through one
// model's weights. Prefill, plain decoding, tree drafting and tree verification are all Steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "step/types.h"

namespace forerun {

// KV slots of a sequence are numbered from 0: [prefix | tree region]; slot s lies in block
// block_table[s / kKvBlockTokens] at offset s % kKvBlockTokens.
inline constexpr int32_t kKvBlockTokens = 64;

// The KV that rows of a sequence see: all of it, or a view (another table, whose slots are counted
// from 0 likewise).
struct StepSequence {
  // Physical block numbers, as many as the highest slot needs. Valid while the Step runs.
  const int32_t* block_table = nullptr;
};

// Of a row that is run once more, to choose (KvSelection).
inline constexpr int32_t kNoSlot = -1;

struct StepRow {
  TokenId token = 0;
  // Its place in the text: what it is rotated by, and the counter of the noise for what follows it.
  int32_t position = 0;
  int32_t sequence_idx = 0;  // in Step::sequences
  int32_t slot = 0;          // where its KV is written; kNoSlot: nowhere, it lies there already
  // How many tokens it sees, itself included: position + 1 where it sees all before it, fewer
  // through a view. They are counted from 0 in the order of their places: the q-th lies in slot q
  // where q < boundary, else in slot ancestors[ancestor_begin + (q - boundary)]; the last one is
  // the row itself. Prefix rows have boundary = visible and no list.
  int32_t visible = 0;
  int32_t boundary = 0;
  int32_t ancestor_begin = 0;
  bool wants_logits = false;
};

// Tokens of a sequence that some rows choose by their queries, for every layer and KV head by
// itself, and whose KV is gathered in blocks of their own before any row of the Step attends there
// (kernels/kv_select).
struct KvSelection {
  // The observers: rows of the Step that follow each other, of one sequence, and want logits. They
  // may see the blocks that they choose for.
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t sequence_idx = 0;  // in Step::sequences: whose tokens, which need not be what they see
  // The first observer weighs slots 0 to first_weighed - 1 of it against each other, each further
  // one so many more: rows of a prefix 1, rows of a tree 0.
  int32_t first_weighed = 0;
  int32_t weighed_step = 0;
  int32_t tokens = 0;   // the choice is among slots 0 to tokens - 1, which all observers weigh
  int32_t chosen = 0;   // so many, whole blocks
  int32_t pooling = 1;  // neighbours that importance is averaged over
  const int32_t* blocks = nullptr;  // physical, [chosen / kKvBlockTokens]
  // Not null: tokens are found by an index of their quantized keys (kernels/pq_index), which lies
  // in these blocks and is brought up to `tokens`, whole blocks. `indexed` of them are in it
  // already; 0: it is built now.
  const int32_t* index_blocks = nullptr;  // physical, [num_index_blocks]
  int32_t num_index_blocks = 0;
  int32_t indexed = 0;
};

// Rows of the residual stream on their way from one stage of a pipeline to the next, in the type
// that it is rounded to after every addition.
struct HiddenRows {
  DType dtype = DType::kBf16;             // or kF32
  int64_t width = 0;                      // the model's hidden size
  std::span<const std::byte> bytes = {};  // [rows][width]
};

struct Step {
  std::vector<StepSequence> sequences;
  std::vector<StepRow> rows;  // a row comes after every row of the Step that it sees
  std::vector<int32_t> ancestors;
  std::vector<KvSelection> selections;  // in the order of their rows
  // Of a stage that does not embed: of every row, in place of its token, which is not looked at.
  // Valid while the Step runs.
  HiddenRows hidden;

  void clear() {
    sequences.clear();
    rows.clear();
    ancestors.clear();
    selections.clear();
    hidden = {};
  }
};

// One KV row to copy within a sequence, for every layer and both K and V. A list of moves acts as
// if all were read before any is written.
struct KvMove {
  int32_t from_slot = 0;
  int32_t to_slot = 0;
};

}  // namespace forerun
