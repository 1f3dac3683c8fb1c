// How a view that gathers its head spends its budget, in whole KV blocks, as SnapKV and MagicDec
// lay it out: one block's worth is the window, the sequence's last tokens in place, and all others
// are the head, which is gathered. When the head is chosen, the tail begins with the window; the
// text that comes after the choice lies in the tail too, on top of the budget. Once the tail has
// taken all the blocks that it may have, the head is chosen anew. Views differ in how long the tail
// may grow, who chooses the head, and when.
#pragma once

#include <cstdint>

#include "forerun/status.h"
#include "views/kv_view.h"

namespace forerun {

class GatheredBudget {
 public:
  // kInvalidArgument where the budget is too small for the window and one block of the head.
  // `view`: its name.
  static Status check(const char* view, int32_t budget_tokens, int32_t window_tokens);

  // The budget must have passed check(). When the head is chosen, the tail holds at least the last
  // `window_tokens` tokens, fewer than a block's, and the block that the next token falls into: on
  // average half a block more than the window, so head and tail together have the budget's tokens
  // to half a block. The tail grows by `growth_blocks` until the head is chosen anew.
  GatheredBudget(int32_t budget_tokens, int32_t window_tokens, int32_t growth_blocks);

  int32_t head_blocks() const { return head_blocks_; }
  // How many tokens the text grows by before the head is chosen anew.
  int32_t tokens_between_choices() const;
  // KvView::layout() for a view that keeps the head `last` until the tail has outgrown its blocks.
  KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const;
  // KvView::layout() for a view that chooses every time.
  KvViewLayout choose(int32_t prefix_tokens) const { return layout(prefix_tokens, {}); }

 private:
  int32_t window_tokens_;
  int32_t max_tail_blocks_;
  int32_t head_blocks_;
};

}  // namespace forerun
