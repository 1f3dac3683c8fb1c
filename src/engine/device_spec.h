// Device names as users write them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// "cpu:0,cpu:2" or "cpu:0-3" or "cpu" (all) to processor numbers, ascending and distinct; an empty
// spec means all that this process may use. Fails on anything else, naming the part.
Result<std::vector<int32_t>> parse_cpu_devices(std::string_view spec);

// Which processors each model runs on.
struct CpuSplit {
  std::vector<int32_t> target;
  std::vector<int32_t> draft;  // empty: the target's, in turn
};

// `draft_spec` empty: nothing is split. An empty `target_spec` beside a draft_spec means all but
// the draft's. Fails where a processor would serve both, or none is left for the target.
Result<CpuSplit> split_cpu_devices(std::string_view target_spec, std::string_view draft_spec);

}  // namespace forerun
