// A file with the costs of Steps, measured once and read at later starts. JSON:
//   {"forerun_step_costs": 1, "key": {"processor": "...", "target": "..."},
//    "target": {"seconds_per_kv_token": 1e-9, "seconds_per_attended_token": 1e-11,
//               "seconds_per_sequence": 1e-5,
//               "steps": [{"rows": 1, "kv_tokens": 0, "seconds": 0.004}]}}
// and "draft", if there is a draft model. The key lists the facts that the times depend on.
#pragma once

#include <string>
#include <string_view>

#include "forerun/status.h"
#include "planner/keyed_folder.h"
#include "step/step_costs.h"

namespace forerun {

struct CostFile {
  CostKey key;      // all facts that the duration of a Step depends on
  StepCosts costs;  // as measured, without corrections; written with seven digits
};

// Returns the text of a file, which must have costs of the target.
std::string write_cost_file(const CostFile& file);
// Fails on all texts that write_cost_file() does not write: other versions, unknown fields, invalid
// times. `name` is the name of the text in messages.
Result<CostFile> parse_cost_file(std::string_view text, const std::string& name);

}  // namespace forerun
