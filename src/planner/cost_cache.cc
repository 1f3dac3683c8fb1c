#include "planner/cost_cache.h"

#include <string>

#include "base/log.h"

namespace forerun {
namespace {

void warn(const std::string& line) { log_line(LogLevel::kWarning, line); }

}  // namespace

std::optional<StepCosts> CostCache::find(const CostKey& key) const {
  const std::string file = file_of(key).string();
  const auto unreadable = [](const Status& status) {
    warn("step costs are measured anew, since those kept are unreadable: " + status.message());
    return std::nullopt;
  };
  const auto text = folder_.read(key);
  if (!text.ok()) return unreadable(text.status());
  if (!*text) return std::nullopt;
  auto read = parse_cost_file(**text, file);
  if (!read.ok()) return unreadable(read.status());
  if (read->key != key) {
    warn("step costs are measured anew: " + file + " is of another key");
    return std::nullopt;
  }
  return std::move(read->costs);
}

void CostCache::keep(const CostKey& key, const StepCosts& costs) const {
  const Status kept = folder_.write(key, write_cost_file({.key = key, .costs = costs}));
  if (!kept.ok()) warn("step costs are not kept: " + kept.message());
}

}  // namespace forerun
