// What plans know of sparse views of the cache before any has been measured: what choosing their
// tokens costs a draft Step, the best budget, and how often published drafts were right. Names are
// those of views/view_table.h, which holds the facts too.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun {

struct DraftView {
  std::string name;
  std::string help;
  int64_t default_budget = 0;  // tokens, the paper's best
  // Reading at every draft Step, as DraftOption::selection_share, of a cache with heads of 128.
  double selection_share = 0.0;
  // Self-speculation's acceptance at the default budget, PG-19 behind 32,000 tokens (MagicDec,
  // Table 6); none: nothing published that a plan may assume.
  std::optional<double> published_acceptance = {};
};

const std::vector<DraftView>& draft_views();
// Null where there is none of that name.
const DraftView* find_draft_view(const std::string& name);

// kInvalidArgument where the view cannot have so many tokens, and how many it can.
Status check_budget(const DraftView& view, int64_t budget);

// Of a small draft model with such a view, or the whole cache (MagicDec, Table 6: Llama-3.2-1B for
// Llama-3.1-8B).
inline constexpr double kPublishedDraftAcceptance = 0.67;

// What is assumed at another budget than the published one. Below it the share of wrong guesses
// grows with the inverse fourth root of the budget: at half of the tokens a fifth more are wrong,
// which keeps SnapKV before StreamingLLM at every equal budget. Above it nothing is gained, so that
// no plan promises more than was published. An assumption: the paper prints no numbers for it.
double acceptance_at(double published, int64_t published_budget, int64_t budget);

}  // namespace forerun
