// What Steps cost as a file: measured once, read at the next start. JSON:
//   {"forerun_step_costs": 1, "key": {"processor": "...", "target": "..."},
//    "target": {"seconds_per_kv_token": 1e-9, "seconds_per_attended_token": 1e-11,
//               "seconds_per_sequence": 1e-5,
//               "steps": [{"rows": 1, "kv_tokens": 0, "seconds": 0.004}]}}
// and "draft" where there is one. Its key says what the times hold for.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "forerun/status.h"
#include "step/step_costs.h"

namespace forerun {

// All that changes how long a Step takes, by name. UTF-8.
using CostKey = std::map<std::string, std::string>;

struct CostFile {
  CostKey key;
  StepCosts costs;  // as they were measured, without corrections; to seven digits
};

// Needs costs of the target.
std::string write_cost_file(const CostFile& file);
// Fails on anything but what write_cost_file() gives: other versions, unknown fields, times that
// are none. `name` is what messages call the text.
Result<CostFile> parse_cost_file(std::string_view text, const std::string& name);

}  // namespace forerun
