// A file with the measurements of the arms of `auto`, kept between starts. JSON:
//   {"forerun_arms": 1, "key": {"arms": "text, plain, snapkv 512", "target": "..."},
//    "arms": [{"noise": 0.04, "noise_count": 6, "spread": 0.1, "spread_count": 30,
//              "loads": [{"sequences": 8, "context_tokens": 4000, "ratio": 1.1, "count": 5}]}],
//    "candidates": [{"seen": 32, "right": 20}]}
// The key lists the facts that the numbers depend on.
#pragma once

#include <string>
#include <string_view>

#include "forerun/status.h"
#include "planner/keyed_folder.h"
#include "planner/measured_arms.h"

namespace forerun {

struct ArmFile {
  CostKey key;
  MeasuredArms measured;  // written with seven digits
};

// Leaves out numbers that are not measurements, such as a ratio that is not a number.
std::string write_arm_file(const ArmFile& file);
// Fails on all texts that write_arm_file() does not write: other versions, unknown fields, counts
// and ratios that cannot have been measured. `name` is the name of the text in messages.
Result<ArmFile> parse_arm_file(std::string_view text, const std::string& name);

}  // namespace forerun
