// A machine for tests whose Steps take what is easily reckoned: in ms, the target 8 for its
// weights, 0.01 a row, and 1 for each 24,000 tokens of the cache; the draft model a tenth of that.
#pragma once

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

}  // namespace forerun
