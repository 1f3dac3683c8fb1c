#include "views/gathered_budget.h"

#include <algorithm>
#include <string>

#include "step/step.h"

namespace forerun {

Status GatheredBudget::check(const char* view, int32_t budget_tokens, int32_t min_tail_blocks,
                             int32_t observers) {
  const int32_t min_tokens = (min_tail_blocks + 1) * kKvBlockTokens;
  if (budget_tokens >= min_tokens) return Status();
  const std::string tail =
      min_tail_blocks == 1 ? "a block" : std::to_string(min_tail_blocks) + " blocks";
  const std::string chosen = observers == 0 ? " and one for what is chosen"
                                            : ", of which " + std::to_string(observers) +
                                                  " observe, and one for what they choose";
  return Status(StatusCode::kInvalidArgument,
                "view_budget: found " + std::to_string(budget_tokens) + "; accepted with view " +
                    view + ": at least " + std::to_string(min_tokens) + " tokens, " + tail +
                    " of " + std::to_string(kKvBlockTokens) + " for the last tokens" + chosen);
}

GatheredBudget::GatheredBudget(int32_t budget_tokens, int32_t min_tail_blocks,
                               int32_t max_tail_blocks)
    : min_tail_blocks_(min_tail_blocks),
      max_tail_blocks_(
          std::max(min_tail_blocks, std::min(max_tail_blocks, budget_tokens / kKvBlockTokens - 1))),
      head_blocks_(budget_tokens / kKvBlockTokens - max_tail_blocks_) {}

int32_t GatheredBudget::tokens_between_choices() const {
  return (max_tail_blocks_ + 1 - min_tail_blocks_) * kKvBlockTokens;
}

KvViewLayout GatheredBudget::layout(int32_t prefix_tokens, const KvChosen& last) const {
  const int32_t blocks = prefix_tokens / kKvBlockTokens + 1;
  if (blocks <= head_blocks_ + max_tail_blocks_) return {};  // everything
  const bool keeps = last.tail_block > 0 && blocks - last.tail_block <= max_tail_blocks_;
  return {.head_blocks = head_blocks_,
          .tail_block = keeps ? last.tail_block : blocks - min_tail_blocks_,
          .head_is_chosen = true,
          .chooses = !keeps};
}

}  // namespace forerun
