// Maps salts (Request::cache_salt) to numbers for prefix caches: equal texts get equal numbers,
// different texts different ones.
//
// The latest kMaxKept salts are remembered. A forgotten salt gets a new number; blocks that were
// cached under the old one are then no longer found.
//
// Thread rules: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "step/work.h"

namespace forerun {

class PrefixSalts {
 public:
  static constexpr size_t kMaxKept = 4096;

  // Returns 0 for the empty text, else kFirstPrefixSalt or above.
  uint64_t number(const std::string& salt) {
    if (salt.empty()) return 0;
    const auto known = places_.find(salt);
    if (known != places_.end()) {
      kept_.splice(kept_.begin(), kept_, known->second);
      return kept_.front().second;
    }
    if (kept_.size() >= kMaxKept) {
      places_.erase(kept_.back().first);
      kept_.pop_back();
    }
    kept_.emplace_front(salt, next_++);
    places_.emplace(kept_.front().first, kept_.begin());
    return kept_.front().second;
  }

 private:
  using Kept = std::list<std::pair<std::string, uint64_t>>;  // the latest first
  Kept kept_;
  std::unordered_map<std::string_view, Kept::iterator> places_;  // names point into kept_
  uint64_t next_ = kFirstPrefixSalt;
};

}  // namespace forerun
