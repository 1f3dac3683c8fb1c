// The budget of a view that gathers its head, in whole KV blocks, as in SnapKV and MagicDec. One
// block's worth is the window, the sequence's last tokens in place; the others are the head, which
// is gathered. When the head is chosen, the tail begins with the window. Tokens that come after the
// choice lie in the tail too, on top of the budget. Once the tail has its largest number of blocks,
// the head is chosen anew. Views differ in how long the tail may grow, which rows choose the head,
// and when.
#pragma once

#include <cstdint>

#include "forerun/status.h"
#include "views/kv_view.h"

namespace forerun {

class GatheredBudget {
 public:
  // Returns kInvalidArgument if the budget is too small for the window and one block of the head.
  // `view` is the view's name, for the message.
  static Status check(const char* view, int32_t budget_tokens, int32_t window_tokens);

  // The budget must have passed check(). When the head is chosen, the tail holds at least the last
  // `window_tokens` tokens (less than a block) and the block that the next token falls into. That
  // is half a block more than the window on average, so head and tail together have the budget's
  // tokens to half a block. The tail grows by `growth_blocks` until the head is chosen anew.
  GatheredBudget(int32_t budget_tokens, int32_t window_tokens, int32_t growth_blocks);

  int32_t head_blocks() const { return head_blocks_; }
  // Returns the number of tokens between two choices of the head.
  int32_t tokens_between_choices() const;
  // Returns the KvView::layout() of a view that keeps the head `last` until the tail has outgrown
  // its blocks.
  KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const;
  // Returns the KvView::layout() of a view that chooses every time.
  KvViewLayout choose(int32_t prefix_tokens) const { return layout(prefix_tokens, {}); }

 private:
  int32_t window_tokens_;
  int32_t max_tail_blocks_;
  int32_t head_blocks_;
};

}  // namespace forerun
