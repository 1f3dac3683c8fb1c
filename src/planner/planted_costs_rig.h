// A machine with simple costs of Steps, for tests. A target Step takes 8 ms for the weights, 0.01
// ms per row and 1 ms for each 24,000 tokens of the KV cache; a draft Step takes a tenth of that.
#pragma once

#include <vector>

#include "planner/rank_speculation.h"
#include "step/step_costs.h"

namespace forerun {

inline StepCosts planted_costs(bool with_draft = true) {
  StepCosts costs;
  const auto add = [&](Role role, double factor) {
    for (const int32_t rows : {1, 1000}) {
      costs.add(role, {.rows = rows}, factor * 1e-3 * (8.0 + 0.01 * rows));
    }
    costs.set_slopes(role, {.per_kv_token = factor * 1e-3 / 24000});
  };
  add(Role::kTarget, 1.0);
  if (with_draft) add(Role::kDraft, 0.1);
  return costs;
}

// Returns two candidates: the target with a view of its own KV cache, and a draft model.
inline std::vector<SpeculationCandidate> planted_candidates() {
  return {{.draft = {.model = Role::kTarget, .budget_tokens = 2048},
           .view = "snapkv",
           .acceptance = 0.89},
          {.draft = {.model = Role::kDraft}, .view = "", .acceptance = 0.66}};
}

}  // namespace forerun
