// How a view that gathers its head spends its budget, in whole KV blocks: some hold the head, the
// others are the tail. A tail begins with a few of the sequence's last blocks when the head is
// chosen, grows with the text, and when it has taken all that is left to it the head is chosen
// anew. What such a view has of its own is how long its tail is, who chooses, and when.
#pragma once

#include <cstdint>

#include "forerun/status.h"
#include "views/kv_view.h"

namespace forerun {

class GatheredBudget {
 public:
  // kInvalidArgument where the budget holds less than such a tail, at its shortest, and a block of
  // what is chosen. `view`: its name. `observers`: tokens of the tail that choose; 0: others do.
  static Status check(const char* view, int32_t budget_tokens, int32_t least_tail_blocks,
                      int32_t observers = 0);

  // Of a budget that check() has accepted. The block that the next token falls into is one of the
  // tail's. The tail has at most `most_tail_blocks`, or what the budget holds beside one of the
  // head, but no fewer than `least_tail_blocks`; the head has all others.
  GatheredBudget(int32_t budget_tokens, int32_t least_tail_blocks, int32_t most_tail_blocks);

  int32_t head_blocks() const { return head_blocks_; }
  // By which the text grows while a choice is kept.
  int32_t tokens_between_choices() const;
  // KvView::layout() of a view that keeps `last` as long as the tail behind it is not too long.
  KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const;
  // The same of one that always chooses.
  KvViewLayout choose(int32_t prefix_tokens) const { return layout(prefix_tokens, {}); }

 private:
  int32_t least_tail_blocks_;
  int32_t most_tail_blocks_;
  int32_t head_blocks_;
};

}  // namespace forerun
