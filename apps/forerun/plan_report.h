// A plan as readable text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan_candidates.h"
#include "planner/plan_machine.h"

namespace forerun::app {

// The contexts from which on speculation pays, for one number of sequences.
struct CriticalContexts {
  int32_t sequences = 1;
  std::optional<int64_t> any;   // with any candidate
  std::optional<int64_t> self;  // with the target as its own draft
  int64_t longest = 0;  // in tokens: the limit of the search, set by the model or the memory
};

struct PlanReport {
  PlannedMachine machine;
  std::string machine_note;  // source of the costs
  std::string model;
  std::string draft;  // empty: none
  std::vector<PlanCandidate> candidates;
  std::vector<BatchPlan> plans;  // sorted by batch, then context
  std::vector<CriticalContexts> critical;
  // The inflection point between the first and the last number of sequences; unset if there is only
  // one number.
  bool has_inflection = false;
  std::optional<int64_t> inflection;
  int64_t longest_context = 0;  // of the model
};

// Returns "snapkv 2049", "draft" or "draft with streaming_llm 512"; "plain decoding" for kPlain.
std::string name_of(const std::vector<PlanCandidate>& candidates, int32_t candidate);

// Returns a table for each load: the best setting of each candidate or, with `all`, every setting.
std::string plan_text(const PlanReport& report, bool all);
std::string plan_json(const PlanReport& report);

}  // namespace forerun::app
