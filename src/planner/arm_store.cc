#include "planner/arm_store.h"

#include <utility>

#include "base/log.h"
#include "planner/arm_file.h"

namespace forerun {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

ArmStore::ArmStore(KeyedFolder folder, CostKey key, const std::vector<std::string>& arms,
                   size_t num_candidates)
    : folder_(std::move(folder)),
      key_(std::move(key)),
      num_arms_(arms.size()),
      num_candidates_(num_candidates) {
  key_["arms"] = joined(arms);
}

std::optional<MeasuredArms> ArmStore::find() const {
  const auto unusable = [](const std::string& why) {
    log_line(LogLevel::kWarning,
             "rates of the arms of auto are measured anew, since those kept are unusable: " + why);
    return std::nullopt;
  };
  const auto text = folder_.read(key_);
  if (!text.ok()) return unusable(text.status().message());
  if (!*text) return std::nullopt;
  auto read = parse_arm_file(**text, file().string());
  if (!read.ok()) return unusable(read.status().message());
  if (read->key != key_) return unusable(file().string() + ": found another key");
  const MeasuredArms& measured = read->measured;
  if (measured.arms.size() != num_arms_ || measured.candidates.size() != num_candidates_) {
    return unusable(file().string() + ": found " + std::to_string(measured.arms.size()) +
                    " arms, " + std::to_string(measured.candidates.size()) +
                    " of them views; accepted: " + std::to_string(num_arms_) + " and " +
                    std::to_string(num_candidates_));
  }
  return std::move(read->measured);
}

void ArmStore::keep(const MeasuredArms& measured) {
  if (has_failed_) return;
  const Status kept = folder_.write(key_, write_arm_file({.key = key_, .measured = measured}));
  if (kept.ok()) return;
  has_failed_ = true;
  log_line(LogLevel::kWarning, "rates of the arms of auto are not kept: " + kept.message());
}

}  // namespace forerun
