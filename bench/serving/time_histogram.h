// A histogram of millions of times in little memory: a count for each step of 1% from 100 ns on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forerun::bench {

class TimeHistogram {
 public:
  void add(double seconds) {
    const auto place = static_cast<size_t>(
        std::max(0.0, std::ceil(std::log(std::max(seconds, kLeast_s) / kLeast_s) / kStep)));
    if (place >= counts_.size()) counts_.resize(place + 1);
    ++counts_[place];
    ++count_;
    max_s_ = std::max(max_s_, seconds);
  }
  int64_t count() const { return count_; }
  double max_s() const { return max_s_; }
  // Returns the smallest time such that at least `share` of all times do not exceed it (nearest
  // rank), at most 1% too high; 0 without times.
  double percentile(double share) const {
    const auto rank = static_cast<int64_t>(std::ceil(share * static_cast<double>(count_)));
    int64_t seen = 0;
    for (size_t place = 0; place < counts_.size(); ++place) {
      seen += counts_[place];
      if (counts_[place] > 0 && seen >= rank) {
        return std::min(kLeast_s * std::exp(kStep * static_cast<double>(place)), max_s_);
      }
    }
    return 0.0;
  }

 private:
  static constexpr double kLeast_s = 1e-7;
  static constexpr double kStep = 0.00995;  // ln 1.01
  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  double max_s_ = 0.0;
};

}  // namespace forerun::bench
