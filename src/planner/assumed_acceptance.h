// The acceptance rate that the planner assumes before a draft token has been verified: the rate
// published for a view (views/view_table.h), carried over to other budgets. Pure.
#pragma once

#include <cstdint>

#include "views/view_table.h"

namespace forerun {

// The acceptance rate of a small draft model, with a view or the whole KV cache (MagicDec, Table 6:
// Llama-3.2-1B for Llama-3.1-8B).
inline constexpr double kPublishedDraftAcceptance = 0.67;

// The acceptance rate of a target that drafts through a view with a budget of `budget` tokens; 0 if
// no rate has been published for the view. Below the published budget the share of rejected draft
// tokens grows with the inverse fourth root of the budget: half of the budget gives a fifth more
// rejections, which keeps SnapKV ahead of StreamingLLM at every equal budget. Above the published
// budget the rate stays the same, so that no plan promises more than was published. This law is an
// assumption: the paper prints no numbers for it.
double assumed_acceptance(const KvViewFacts& facts, int64_t budget);

}  // namespace forerun
