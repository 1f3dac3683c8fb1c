// A view of a sequence's KV: which of its tokens rows see, where that is not all of them. Drafting
// through a view reads only a part of the KV cache (MagicDec §4; StreamingLLM).
//
// A view is a block table: blocks of a head, then the sequence's own blocks from some block on, its
// tail, up to the last one. The head is the sequence's own first blocks, in place, or blocks of the
// view's own, in which tokens from before the tail are gathered: those that some rows, the
// observers, pay the most attention to. The tail holds the end of the prefix and the tree region,
// at the same offsets in the same blocks, so rows write their KV to the same place with and without
// a view. Attention knows nothing of views (StepRow::visible).
//
// Each role has its own view object for each sequence. One thread.
#pragma once

#include <cstdint>

namespace forerun {

struct KvViewLayout {
  int32_t head_blocks = 0;
  int32_t tail_block = 0;       // the first block of its tail, at least head_blocks
  bool head_is_chosen = false;  // else the head is the sequence's own first blocks
  bool chooses = false;         // the head is chosen anew, from what lies before the tail
};

// Which rows choose the tokens of a head.
enum class KvObservers : uint8_t {
  kNobody,
  kLastTokens,  // the last tokens of the prefix, which lie in the tail and are run once more
  kOwnRows,     // the first of the rows that see it
};

struct KvChoice {
  KvObservers by = KvObservers::kNobody;
  int32_t observers = 0;  // how many rows choose; for kOwnRows, at most
  int32_t pooling = 1;    // neighbours, an odd number, that a token's importance is averaged over
  bool by_index = false;  // by quantized keys, which are kept in blocks beside the head
};

// The choice that a head holds.
struct KvChosen {
  int32_t tail_block = 0;     // tail_block of its layout; 0: there is none
  int32_t prefix_tokens = 0;  // length of the prefix when it was made
};

class KvView {
 public:
  virtual ~KvView() = default;
  // What rows behind a prefix of `prefix_tokens` tokens see of it. The tail begins at or before the
  // prefix's end. Where tail_block equals head_blocks, rows see everything.
  virtual KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const = 0;
  virtual KvChoice choice() const { return {}; }
  // The layout for rows after a verification whose own rows, which see everything, choose the head.
  // `chooses` is false where no choice is due, or where verifications never choose.
  virtual KvViewLayout layout_by_verification(int32_t /*prefix_tokens*/,
                                              const KvChosen& /*last*/) const {
    return {};
  }
};

}  // namespace forerun
