// Makes the candidates of a plan from a user's views, budgets and acceptance rates. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "planner/rank_speculation.h"

namespace forerun {

struct CandidateOptions {
  bool has_draft_model = false;
  // Names of views. Empty: those with `by_default` in the table, and those with a given acceptance
  // rate.
  std::vector<std::string> views = {};
  // Budgets of every view, in tokens. Empty: those with a given acceptance rate, else each view's
  // own budget.
  std::vector<int64_t> budgets = {};
  // Acceptance rates A in [0, 1]: "VIEW=A" or "VIEW:K=A" for the target that drafts through its own
  // view with budget K, "draft=A" for the draft model, "draft/VIEW:K=A" for the draft model with a
  // view. The most specific entry counts.
  std::vector<std::string> acceptance = {};
  // In tokens. Budgets that are not below it are refused.
  int64_t longest_context = 0;
};

struct PlanCandidate {
  SpeculationCandidate candidate;
  // Such as "self, snapkv 2049", "draft", "draft, streaming_llm 512" or "self, snapkv 2049, checks
  // draft".
  std::string name;
  // Source of the acceptance rate: "given", "MagicDec, ...", "assumed from ...".
  std::string source;
};

// Makes a candidate for the target with every view and budget, alone and, if there is a draft
// model, as a hierarchy that checks the draft model's tokens; the draft model then uses a
// StreamingLLM view of the same budget. The draft model is a candidate with the whole cache and
// with a StreamingLLM view. Fails with kInvalidArgument, saying what was found and what is
// accepted, for unknown views, budgets that a view cannot have or that cover every context,
// malformed acceptance rates, and rates of candidates that are not planned.
Result<std::vector<PlanCandidate>> make_candidates(const CandidateOptions& options);

// Returns the same candidates without names and sources, as input of the ranking functions.
std::vector<SpeculationCandidate> bare(const std::vector<PlanCandidate>& candidates);

}  // namespace forerun
