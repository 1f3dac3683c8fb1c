// How a view that gathers its head spends its budget, in whole KV blocks: some hold the head, the
// others are the tail. When the head is chosen, the tail is a few of the sequence's last blocks; it
// grows with the text, and once it has taken all its blocks the head is chosen anew. Views differ
// in how long the tail is, who chooses the head, and when.
#pragma once

#include <cstdint>

#include "forerun/status.h"
#include "views/kv_view.h"

namespace forerun {

class GatheredBudget {
 public:
  // kInvalidArgument where the budget is too small for a tail of `min_tail_blocks` and one block
  // of the head. `view`: its name. `observers`: how many tokens of the tail choose; 0: other rows
  // do.
  static Status check(const char* view, int32_t budget_tokens, int32_t min_tail_blocks,
                      int32_t observers = 0);

  // The budget must have passed check(). The block that the next token falls into belongs to the
  // tail. The tail has at most `max_tail_blocks`, or what the budget leaves beside one block of
  // the head, but no fewer than `min_tail_blocks`; the head has all other blocks.
  GatheredBudget(int32_t budget_tokens, int32_t min_tail_blocks, int32_t max_tail_blocks);

  int32_t head_blocks() const { return head_blocks_; }
  // How many tokens the text grows by before the head is chosen anew.
  int32_t tokens_between_choices() const;
  // KvView::layout() for a view that keeps the head `last` until the tail has outgrown its blocks.
  KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const;
  // KvView::layout() for a view that chooses every time.
  KvViewLayout choose(int32_t prefix_tokens) const { return layout(prefix_tokens, {}); }

 private:
  int32_t min_tail_blocks_;
  int32_t max_tail_blocks_;
  int32_t head_blocks_;
};

}  // namespace forerun
