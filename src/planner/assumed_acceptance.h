// How often guesses are taken to be right before any has been seen: what has been published of a
// view (views/view_table.h), carried over to other budgets. Pure.
#pragma once

#include <cstdint>

#include "views/view_table.h"

namespace forerun {

// Of a small draft model, with a view or the whole cache (MagicDec, Table 6: Llama-3.2-1B for
// Llama-3.1-8B).
inline constexpr double kPublishedDraftAcceptance = 0.67;

// Of the target that drafts through a view with `budget` tokens; 0 where nothing is published of
// it. Below the published budget the share of wrong guesses grows with the inverse fourth root of
// the budget: at half of the tokens a fifth more are wrong, which keeps SnapKV before StreamingLLM
// at every equal budget. Above it nothing is gained, so that no plan promises more than was
// published. An assumption: the paper prints no numbers for it.
double assumed_acceptance(const KvViewFacts& facts, int64_t budget);

}  // namespace forerun
