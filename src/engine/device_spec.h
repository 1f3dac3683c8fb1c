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

}  // namespace forerun
