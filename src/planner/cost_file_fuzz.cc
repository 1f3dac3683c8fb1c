// Fuzzes the reader of cached Step costs. An accepted text must give finite times that survive
// writing and reading.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/cost_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = forerun::parse_cost_file(text, "costs.json");
  if (!file.ok()) {
    if (file.status().message().find("costs.json") == std::string::npos) std::abort();
    return 0;
  }
  if (!file->costs.has(forerun::Role::kTarget)) std::abort();
  const forerun::CostTable costs = file->costs.table(3, 1000);
  for (int32_t rows = 1; rows <= forerun::CostTable::kMaxRows; ++rows) {
    const float seconds = costs.at(forerun::Role::kTarget, rows);
    if (!std::isfinite(seconds) || seconds < 0.0f) std::abort();
  }
  const std::string written = forerun::write_cost_file(*file);
  const auto again = forerun::parse_cost_file(written, "written");
  if (!again.ok() || again->key != file->key) std::abort();
  if (forerun::write_cost_file(*again) != written) std::abort();
  return 0;
}
