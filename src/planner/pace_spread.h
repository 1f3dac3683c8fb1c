// The uncertainty of a ratio of measured to predicted tokens, from the variation of both between
// the rounds of one measurement. The first Steps after a start, which load kernels, or a lucky
// round then count for little. Pure.
#pragma once

#include <cmath>

namespace forerun {

class PaceSpread {
 public:
  // Adds a Step with `tokens` tokens, 0 for a draft Step; `expected` tokens were predicted for its
  // time.
  void add(double tokens, double expected) {
    open_expected_ += expected;
    if (tokens <= 0.0) return;
    ++rounds_;
    tokens_ += tokens;
    expected_ += open_expected_;
    tokens_squared_ += tokens * tokens;
    product_ += tokens * open_expected_;
    expected_squared_ += open_expected_ * open_expected_;
    open_expected_ = 0.0;
  }
  // Returns the standard deviation of the ratio's logarithm; kUnknown with fewer than three rounds.
  double deviation() const {
    if (rounds_ < 3 || expected_ <= 0.0) return kUnknown;
    const double ratio = tokens_ / expected_;
    const double squares =
        tokens_squared_ - 2.0 * ratio * product_ + ratio * ratio * expected_squared_;
    const double rounds = rounds_;
    return std::sqrt(std::fmax(squares, 0.0) * rounds / (rounds - 1.0)) / tokens_;
  }

 private:
  static constexpr double kUnknown = 0.5;
  int rounds_ = 0;
  // Expected tokens of the Steps since the last round that gave tokens.
  double open_expected_ = 0.0;
  double tokens_ = 0.0;
  double expected_ = 0.0;
  double tokens_squared_ = 0.0;
  double product_ = 0.0;
  double expected_squared_ = 0.0;
};

}  // namespace forerun
