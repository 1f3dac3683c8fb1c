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

// The KV that rows of a sequence see: all of it, or a view, which is another block table whose
// slots are also counted from 0.
struct StepSequence {
  // Physical block numbers, as many as the highest slot needs. Valid while the Step runs.
  const int32_t* block_table = nullptr;
};

// The slot of a row that is run once more only to choose KV (KvSelection): its KV is not written.
inline constexpr int32_t kNoSlot = -1;

struct StepRow {
  TokenId token = 0;
  // Index of the token in the text: its RoPE position, and the counter of the noise for the token
  // after it.
  int32_t position = 0;
  int32_t sequence_idx = 0;  // index in Step::sequences
  int32_t slot = 0;          // where its KV is written; kNoSlot: it has been written before
  // How many tokens the row sees, itself included: position + 1 where it sees the whole text, fewer
  // through a view. In the order of positions, counted from 0, the q-th of them lies in slot q
  // where q < boundary, else in slot ancestors[ancestor_begin + (q - boundary)]; the last one is
  // the row itself. Prefix rows have boundary = visible and no ancestors.
  int32_t visible = 0;
  int32_t boundary = 0;
  int32_t ancestor_begin = 0;
  bool wants_logits = false;
};

// A choice of a sequence's tokens that some rows of the Step, the observers, make by their queries,
// separately for every layer and KV head. The KV of the chosen tokens is gathered into separate
// blocks before any row of the Step attends to them (kernels/kv_select).
struct KvSelection {
  // The observers: consecutive rows of one sequence that want logits. They may themselves attend to
  // the blocks that they fill.
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t sequence_idx = 0;  // index in Step::sequences of the one whose tokens are chosen
  // The first observer scores slots 0 to first_weighed - 1 of that sequence, and each further
  // observer `weighed_step` more: 1 for rows of a prefix, 0 for rows of a tree.
  int32_t first_weighed = 0;
  int32_t weighed_step = 0;
  int32_t tokens = 0;   // the choice is among slots 0 to tokens - 1, which all observers score
  int32_t chosen = 0;   // how many tokens are chosen, whole blocks
  int32_t pooling = 1;  // neighbouring tokens that scores are averaged over
  const int32_t* blocks = nullptr;  // physical, [chosen / kKvBlockTokens]
  // Not null: tokens are found by an index of their quantized keys (kernels/pq_index), which lies
  // in these blocks and is extended to `tokens` tokens, whole blocks. The first `indexed` tokens
  // are in it already; 0: the index is built now.
  const int32_t* index_blocks = nullptr;  // physical, [num_index_blocks]
  int32_t num_index_blocks = 0;
  int32_t indexed = 0;
};

// Rows of the residual stream on their way from one pipeline stage to the next, in the type that
// the stream is rounded to after every addition.
struct HiddenRows {
  DType dtype = DType::kBf16;             // kBf16 or kF32
  int64_t width = 0;                      // the model's hidden size
  std::span<const std::byte> bytes = {};  // [rows][width]
};

// A row whose taps are kept: its hidden states behind the layers that the decoder taps, in a place
// of the decoder's store (model/tap_store.h). They never leave the device.
struct StepTap {
  int32_t row = 0;
  int32_t place = 0;
};

// The hidden row that a row of a trained head starts from: that of the token before it.
struct StepFeature {
  bool is_own = false;  // the place is in the head's own store; otherwise in its target's
  int32_t place = 0;    // place in that store; no tap of this Step is kept there
};

struct Step {
  std::vector<StepSequence> sequences;
  std::vector<StepRow> rows;  // a row comes after every row of the Step that it sees
  std::vector<int32_t> ancestors;
  std::vector<KvSelection> selections;  // in the order of their rows
  // Rows whose taps are kept, ascending, each in a place of its own; only for a decoder that taps.
  std::vector<StepTap> taps;
  // One for each row; only for a model that takes features.
  std::vector<StepFeature> features;
  // Input of a pipeline stage that does not embed: a hidden row for every row, whose token is then
  // ignored. Valid while the Step runs.
  HiddenRows hidden;

  void clear() {
    sequences.clear();
    rows.clear();
    ancestors.clear();
    selections.clear();
    taps.clear();
    features.clear();
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
