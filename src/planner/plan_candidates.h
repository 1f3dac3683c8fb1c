// The candidates of a plan from what a user asks for: views, budgets and how often guesses are
// right. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "planner/rank_speculation.h"

namespace forerun {

struct CandidateOptions {
  bool has_draft_model = false;
  // Empty: those of which acceptance is published or given.
  std::vector<std::string> views = {};
  // Tokens; of every view. Empty: those that acceptance is given at, else each view's own.
  std::vector<int64_t> budgets = {};
  // "VIEW=A" or "VIEW:K=A" of the target with its own view, "draft=A" of the draft model,
  // "draft/VIEW:K=A" of it with a view; A in [0, 1]. The most precise one counts.
  std::vector<std::string> acceptance = {};
  // Tokens; budgets asked for that are not below it are refused.
  int64_t longest_context = 0;
};

struct PlanCandidate {
  SpeculationCandidate candidate;
  // "self, snapkv 2049", "draft", "draft, streaming_llm 512", "self, snapkv 2049, checks draft"
  std::string name;
  std::string source;  // of its acceptance: "given", "MagicDec, ...", "assumed from ..."
};

// The target with every view and budget, by itself and, where there is a draft model, checking what
// that guesses through a StreamingLLM view of the same budget; the draft model with the whole cache
// and with a StreamingLLM view. kInvalidArgument names what was found and what is accepted: unknown
// views, budgets that a view cannot have or that see the whole of every context, acceptance that is
// none, or of nothing that is planned, a view of which none is known.
Result<std::vector<PlanCandidate>> make_candidates(const CandidateOptions& options);

// For the functions that rank.
std::vector<SpeculationCandidate> bare(const std::vector<PlanCandidate>& candidates);

}  // namespace forerun
