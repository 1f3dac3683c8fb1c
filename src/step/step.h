// The interface between policies and models: a Step is a batch of token rows of any number of
// sequences, which runs once through one model. Prefill, plain decoding, tree drafting and tree
// verification are all Steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "step/types.h"

namespace forerun {

// The number of slots in a KV block. The KV slots of a sequence are numbered from 0, [prefix | tree
// region]; slot s lies in block block_table[s / kKvBlockTokens] at offset s % kKvBlockTokens.
inline constexpr int32_t kKvBlockTokens = 64;

// The KV that rows of a sequence attend to: all of it, or a view, which is another block table with
// slots from 0.
struct StepSequence {
  // Physical block numbers up to the highest slot that rows attend to. Valid while the Step runs.
  const int32_t* block_table = nullptr;
};

// The slot of a row that runs again only to choose KV (KvSelection); the Step does not write its
// KV.
inline constexpr int32_t kNoSlot = -1;

struct StepRow {
  TokenId token = 0;
  // Index of the token in the sequence: its RoPE position, and the counter of the noise for the
  // next token.
  int32_t position = 0;
  int32_t sequence_idx = 0;  // index in Step::sequences
  int32_t slot = 0;          // where the Step writes its KV; kNoSlot if an earlier Step wrote it
  // The number of tokens that the row attends to, itself included: position + 1 if it attends to
  // the whole sequence, fewer through a view. In the order of positions, counted from 0, token q of
  // them lies in slot q if q < boundary, else in slot ancestors[ancestor_begin + (q - boundary)];
  // the last one is the row itself. Prefix rows have boundary = visible and no ancestors.
  int32_t visible = 0;
  int32_t boundary = 0;
  int32_t ancestor_begin = 0;
  bool wants_logits = false;
};

// A selection of a sequence's tokens by the queries of some rows of the Step, the observers,
// separately for each layer and KV head. The KV of the selected tokens is gathered into separate
// blocks before any row of the Step attends to them (kernels/kv_select).
struct KvSelection {
  // The observers are consecutive rows of one sequence that want logits. They may themselves attend
  // to the gathered blocks.
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t sequence_idx = 0;  // index in Step::sequences of the sequence that owns the tokens
  // The first observer scores slots 0 to first_weighed - 1 of that sequence, and each further
  // observer `weighed_step` slots more: 1 for prefix rows, 0 for tree rows.
  int32_t first_weighed = 0;
  int32_t weighed_step = 0;
  int32_t tokens = 0;   // candidates are slots 0 to tokens - 1, which all observers score
  int32_t chosen = 0;   // number of selected tokens, in whole blocks
  int32_t pooling = 1;  // neighbouring tokens over which scores are averaged
  const int32_t* blocks = nullptr;  // physical, [chosen / kKvBlockTokens]
  // If not null, an index of quantized keys (kernels/pq_index) in these blocks finds the tokens;
  // the Step extends it to `tokens` tokens, whole blocks. It already holds the first `indexed`
  // tokens; 0 makes the Step build it.
  const int32_t* index_blocks = nullptr;  // physical, [num_index_blocks]
  int32_t num_index_blocks = 0;
  int32_t indexed = 0;
};

// Rows of the residual stream between two pipeline stages, in the type to which the stream is
// rounded after every addition.
struct HiddenRows {
  DType dtype = DType::kBf16;             // kBf16 or kF32
  int64_t width = 0;                      // the model's hidden size
  std::span<const std::byte> bytes = {};  // [rows][width]
};

// A row that keeps its taps, the hidden states behind the layers that the decoder taps, in a place
// of the decoder's store (model/tap_store.h). They never leave the device.
struct StepTap {
  int32_t row = 0;
  int32_t place = 0;
};

// The hidden state that a row of a trained head starts from: the state of the token before it.
struct StepFeature {
  bool is_own = false;  // true if the place is in the head's own store, false if in its target's
  int32_t place = 0;    // place in that store; no tap of this Step is kept there
};

struct Step {
  std::vector<StepSequence> sequences;
  std::vector<StepRow> rows;  // a row comes after every row of the Step that it attends to
  std::vector<int32_t> ancestors;
  std::vector<KvSelection> selections;  // in the order of their rows
  // The rows that keep their taps, ascending, each with its own place; only for a decoder with
  // taps.
  std::vector<StepTap> taps;
  // One entry per row; only for a model that takes features.
  std::vector<StepFeature> features;
  // Input of a pipeline stage without an embedding: one hidden state per row; the stage ignores the
  // tokens. Valid while the Step runs.
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

// One KV row to copy within a sequence, K and V of every layer. A list of moves acts as if it read
// all rows before it wrote any.
struct KvMove {
  int32_t from_slot = 0;
  int32_t to_slot = 0;
};

}  // namespace forerun
