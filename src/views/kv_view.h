// A view of a sequence's KV: which of its tokens rows see, where that is not all of them. Drafting
// through one reads a part of the cache in place of all of it (MagicDec §4; StreamingLLM).
//
// A view is a block table: blocks of a head, then the sequence's own blocks from some block on, its
// tail, up to the last one. The tail holds the end of the prefix and the tree region, at the same
// offsets in the same blocks, so what rows write through a view lies where they would have written
// it without one. Attention knows nothing of views (StepRow::visible).
//
// Kept by one role for one sequence; one thread.
#pragma once

#include <cstdint>

namespace forerun {

struct KvViewLayout {
  int32_t head_blocks = 0;  // the sequence's own first so many
  int32_t tail_block = 0;   // the first block of its tail, at least head_blocks
};

class KvView {
 public:
  virtual ~KvView() = default;
  // What rows behind a prefix of `prefix_tokens` see of it. The tail begins at or before the
  // prefix's end. Where it begins with block head_blocks, that is everything.
  virtual KvViewLayout layout(int32_t prefix_tokens) const = 0;
};

}  // namespace forerun
