// A view of a sequence's KV: the subset of tokens that rows attend to. Drafting through a view
// reads only a part of the KV cache (MagicDec §4; StreamingLLM).
//
// A view is a block table: the head's blocks, then the tail, which is the sequence's own blocks
// from some block to the last one. The head is either the sequence's first blocks in place, or
// blocks that belong to the view and hold gathered tokens from before the tail: those to which some
// rows, the observers, attend most. The tail holds the end of the prefix and the tree region, at
// the same offsets in the same blocks, so rows write their KV to the same place with and without a
// view. Attention kernels do not know views (StepRow::visible).
//
// Each role has its own view object for each sequence. Only one thread may use an object.
#pragma once

#include <cstdint>

namespace forerun {

struct KvViewLayout {
  int32_t head_blocks = 0;
  int32_t tail_block = 0;       // first block of the tail, at least head_blocks
  bool head_is_chosen = false;  // false if the head is the sequence's own first blocks
  bool chooses = false;         // the head is chosen anew, from the tokens before the tail
};

// The rows that choose the tokens of a head.
enum class KvObservers : uint8_t {
  kNobody,
  kLastTokens,  // the prefix's last tokens, which lie in the tail and run again
  kOwnRows,     // the first of the rows that attend to it
};

struct KvChoice {
  KvObservers by = KvObservers::kNobody;
  int32_t observers = 0;  // number of rows that choose; the maximum for kOwnRows
  int32_t pooling = 1;    // neighbours, an odd number, over which scores are averaged
  bool by_index = false;  // by quantized keys, in blocks beside the head
};

// The choice that filled a head.
struct KvChosen {
  int32_t tail_block = 0;     // tail_block of its layout; 0 if there is no choice
  int32_t prefix_tokens = 0;  // length of the prefix at the time of the choice
};

class KvView {
 public:
  virtual ~KvView() = default;
  // Returns the layout for rows behind a prefix of `prefix_tokens` tokens. The tail begins at or
  // before the prefix's end. If tail_block equals head_blocks, rows attend to everything.
  virtual KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const = 0;
  virtual KvChoice choice() const { return {}; }
  // Returns the layout for rows after a verification that attends to everything and chooses the
  // head itself. `chooses` is false if no choice is due, or if verifications never choose for this
  // view.
  virtual KvViewLayout layout_by_verification(int32_t /*prefix_tokens*/,
                                              const KvChosen& /*last*/) const {
    return {};
  }
};

}  // namespace forerun
