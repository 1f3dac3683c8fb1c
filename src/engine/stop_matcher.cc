#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace forerun {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool keep_stop)
    : stops_(std::move(stops)), keep_stop_(keep_stop) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::push(std::string_view text, bool may_stop) {
  if (stopped_) return {};
  held_ += text;
  if (!may_stop) unstopped_ = held_.size();
  size_t first = std::string::npos;
  size_t stop_size = 0;  // of the one that begins there
  for (const std::string& stop : stops_) {
    const size_t from = unstopped_ < stop.size() ? 0 : unstopped_ - stop.size() + 1;
    const size_t begin = held_.find(stop, from);
    if (begin == std::string::npos || begin > first) continue;
    stop_size = begin < first ? stop.size() : std::min(stop_size, stop.size());
    first = begin;
  }
  if (first != std::string::npos) {
    stopped_ = true;
    std::string out = held_.substr(0, first + (keep_stop_ ? stop_size : 0));
    held_.clear();
    return out;
  }
  // The longest tail that is a proper prefix of a stop string stays.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (std::string_view(held_).substr(held_.size() - length) ==
          std::string_view(stop).substr(0, length)) {
        keep = length;
        break;
      }
    }
  }
  std::string out = held_.substr(0, held_.size() - keep);
  unstopped_ -= std::min(unstopped_, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopMatcher::finish() { return stopped_ ? std::string() : std::exchange(held_, {}); }

}  // namespace forerun
