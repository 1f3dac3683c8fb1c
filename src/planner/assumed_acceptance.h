// The acceptance rate that the planner assumes before any draft token has been verified: the rate
// published or measured for a view (views/view_table.h), extended to other budgets. Pure.
#pragma once

#include <cstdint>

#include "views/view_table.h"

namespace forerun {

// The acceptance rate of a small draft model, with a view or the whole KV cache (MagicDec, Table 6:
// Llama-3.2-1B for Llama-3.1-8B).
inline constexpr double kPublishedDraftAcceptance = 0.67;

// Returns the acceptance rate of a target that drafts through a view with a budget of `budget`
// tokens; 0 if the view has no known rate. Below the budget of the known rate, the share of
// rejected draft tokens grows with the inverse fourth root of the budget: half of the budget gives
// a fifth more rejections, which keeps SnapKV ahead of StreamingLLM at every equal budget. Above it
// the rate stays the same, so that no plan promises more than is known. This law is an assumption:
// the paper gives no numbers for it, and the demo target loses more
// (docs/log/2026-11-29-planner-and-views.md).
double assumed_acceptance(const KvViewFacts& facts, int64_t budget);

}  // namespace forerun
