// Feeds text to the reader of profiles. Any accepted profile must give finite times.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "exec/emulated/step_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profiles = forerun::parse_step_profiles(text, "profiles.json");
  if (!profiles.ok()) {
    if (profiles.status().message().find("profiles.json") == std::string::npos) std::abort();
    return 0;
  }
  for (const forerun::StepProfile& profile : *profiles) {
    if (!profile.has(forerun::Role::kTarget)) std::abort();
    const forerun::CostTable costs = profile.costs.table(1, 1000);
    for (int32_t rows = 1; rows <= forerun::CostTable::kMaxRows; ++rows) {
      const float seconds = costs.at(forerun::Role::kTarget, rows);
      if (!std::isfinite(seconds) || seconds < 0.0f) std::abort();
    }
  }
  return 0;
}
