// Cuts a text stream before (or behind) the first of some stop strings, without ever releasing a
// character that could still turn out to belong to one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forerun {

class StopMatcher {
 public:
  // Empty strings are ignored. `keep_stop`: the stop string itself is shown.
  explicit StopMatcher(std::vector<std::string> stops, bool keep_stop = false);

  // Appends `text` and returns what may be shown now. Once a stop string is complete everything
  // before it is returned, stopped() is true and later pushes return nothing. Where two stops
  // overlap the one that begins first wins, of two that begin together the shorter. `may_stop`
  // false: no stop string ends in this text.
  std::string push(std::string_view text, bool may_stop = true);
  // The stream has ended: what was held back.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  bool keep_stop_ = false;
  std::string held_;
  size_t unstopped_ = 0;  // bytes at the front of held_ in which no stop string ends
  bool stopped_ = false;
};

}  // namespace forerun
