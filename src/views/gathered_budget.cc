#include "views/gathered_budget.h"

#include <algorithm>
#include <string>

#include "step/step.h"

namespace forerun {

Status GatheredBudget::check(const char* view, int32_t budget_tokens, int32_t window_tokens) {
  constexpr int32_t kMinTokens = 2 * kKvBlockTokens;
  if (budget_tokens >= kMinTokens) return Status();
  const std::string window =
      window_tokens == 0 ? "" : ", of which " + std::to_string(window_tokens) + " observe,";
  return Status(StatusCode::kInvalidArgument,
                "view_budget: found " + std::to_string(budget_tokens) + "; accepted with view " +
                    view + ": at least " + std::to_string(kMinTokens) + " tokens, a block of " +
                    std::to_string(kKvBlockTokens) + " for the last tokens" + window +
                    " and one for what is chosen");
}

GatheredBudget::GatheredBudget(int32_t budget_tokens, int32_t window_tokens, int32_t growth_blocks)
    : window_tokens_(window_tokens),
      // A window may extend into the block before that of the next token.
      max_tail_blocks_((window_tokens > 0 ? 2 : 1) + growth_blocks),
      head_blocks_(budget_tokens / kKvBlockTokens - 1) {}

int32_t GatheredBudget::tokens_between_choices() const {
  // Right after a choice at a block boundary, the tail has one block and the next token's.
  return (max_tail_blocks_ - (window_tokens_ > 0 ? 1 : 0)) * kKvBlockTokens;
}

KvViewLayout GatheredBudget::layout(int32_t prefix_tokens, const KvChosen& last) const {
  const int32_t blocks = prefix_tokens / kKvBlockTokens + 1;
  if (last.tail_block > 0 && blocks - last.tail_block <= max_tail_blocks_) {
    return {.head_blocks = head_blocks_, .tail_block = last.tail_block, .head_is_chosen = true};
  }
  const int32_t tail_block = std::max(prefix_tokens - window_tokens_, 0) / kKvBlockTokens;
  if (tail_block <= head_blocks_) return {};  // attends to everything
  return {.head_blocks = head_blocks_,
          .tail_block = tail_block,
          .head_is_chosen = true,
          .chooses = true};
}

}  // namespace forerun
