// A machine for tests whose Steps take what is easily reckoned: in ms, the target 8 for its
// weights, 0.01 a row, and 1 for each 24,000 tokens of the cache; the draft model a tenth of that.
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

// A view of the target's own KV, and a draft model.
inline std::vector<SpeculationCandidate> planted_candidates() {
  return {{.draft = {.model = Role::kTarget, .budget_tokens = 2048},
           .view = "snapkv",
           .acceptance = 0.89},
          {.draft = {.model = Role::kDraft}, .view = "", .acceptance = 0.66}};
}

}  // namespace forerun
