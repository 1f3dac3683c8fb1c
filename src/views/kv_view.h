// A view of a sequence's KV: which of its tokens rows see, where that is not all of them. Drafting
// through one reads a part of the cache in place of all of it (MagicDec §4; StreamingLLM).
//
// A view is a block table: blocks of a head, then the sequence's own blocks from some block on, its
// tail, up to the last one. The head is the sequence's own first blocks, in place, or blocks of the
// view's own, in which tokens from before the tail are gathered: those that the last tokens, which
// are run once more as observers, pay the most attention to. The tail holds the end of the prefix
// and the tree region, at the same offsets in the same blocks, so what rows write through a view
// lies where they would have written it without one. Attention knows nothing of views
// (StepRow::visible).
//
// Kept by one role for one sequence; one thread.
#pragma once

#include <cstdint>

namespace forerun {

struct KvViewLayout {
  int32_t head_blocks = 0;
  int32_t tail_block = 0;       // the first block of its tail, at least head_blocks
  bool head_is_chosen = false;  // else the head is the sequence's own first blocks
};

// How a head is chosen.
struct KvChoice {
  int32_t observers = 0;  // the last so many tokens of the prefix; 0: no head ever is
  int32_t pooling = 1;    // neighbours, an odd number, that a token's importance is averaged over
};

class KvView {
 public:
  virtual ~KvView() = default;
  // What rows behind a prefix of `prefix_tokens` see of it. The tail begins at or before the
  // prefix's end. Where it begins with block head_blocks, that is everything. `chosen_for`: the
  // tail_block of the layout that a head has been chosen for, 0: none has been. A head that is
  // chosen is chosen anew where the tail begins elsewhere.
  virtual KvViewLayout layout(int32_t prefix_tokens, int32_t chosen_for) const = 0;
  virtual KvChoice choice() const { return {}; }
};

}  // namespace forerun
