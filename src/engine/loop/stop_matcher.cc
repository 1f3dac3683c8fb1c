#include "engine/loop/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace forerun {

StopMatcher::Pattern::Pattern(std::string stop)
    : stop_(std::move(stop)), shorter_(stop_.size(), 0) {
  size_t length = 0;
  for (size_t idx = 1; idx < stop_.size(); ++idx) {
    while (length > 0 && stop_[length] != stop_[idx]) length = shorter_[length - 1];
    if (stop_[length] == stop_[idx]) ++length;
    shorter_[idx] = static_cast<uint32_t>(length);
  }
}

bool StopMatcher::Pattern::take(char byte) {
  while (matched_ > 0 && stop_[matched_] != byte) matched_ = shorter_[matched_ - 1];
  if (stop_[matched_] == byte) ++matched_;
  if (matched_ < stop_.size()) return false;
  matched_ = shorter_[matched_ - 1];
  return true;
}

StopMatcher::StopMatcher(const std::vector<std::string>& stops, bool keep_stop)
    : keep_stop_(keep_stop) {
  for (const std::string& stop : stops) {
    if (!stop.empty()) patterns_.emplace_back(stop);
  }
}

std::string StopMatcher::push(std::string_view text, bool may_stop) {
  if (stopped_) return {};
  const size_t held = held_.size();
  held_ += text;
  size_t first = std::string::npos;
  size_t stop_size = 0;  // length of the stop string that begins there
  size_t keep = 0;
  for (Pattern& pattern : patterns_) {
    for (size_t idx = held; idx < held_.size(); ++idx) {
      if (!pattern.take(held_[idx]) || !may_stop) continue;
      const size_t begin = idx + 1 - pattern.size();
      if (begin <= first) {
        stop_size = begin < first ? pattern.size() : std::min(stop_size, pattern.size());
        first = begin;
      }
      break;
    }
    keep = std::max(keep, pattern.matched());
  }
  if (first != std::string::npos) {
    stopped_ = true;
    stopped_by_ = held_.substr(first, stop_size);
    std::string out = held_.substr(0, first + (keep_stop_ ? stop_size : 0));
    held_.clear();
    return out;
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopMatcher::finish() { return stopped_ ? std::string() : std::exchange(held_, {}); }

}  // namespace forerun
