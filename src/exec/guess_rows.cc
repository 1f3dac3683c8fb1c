#include "exec/guess_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace forerun {
namespace {

// A discount for a guess's expected gain, because chosen guesses tend to be overrated.
constexpr float kTrust = 0.93f;

}  // namespace

void GuessRows::clear() {
  certain_ = {.rows = 0, .sequences = 0};
  rows_.clear();
  offers_.clear();
}

void GuessRows::add(WorkItem& item, int64_t context) {
  Offer offer{.item = &item, .begin = rows_.size()};
  int32_t certain = 0;
  for (size_t idx = 0; idx < item.rows.size(); ++idx) {
    if (item.rows[idx].chance < 1.0f) {
      // The gain is computed from the chance below, once all chances of the item are known.
      rows_.push_back({.gain = item.rows[idx].chance, .idx = static_cast<int32_t>(idx)});
    } else {
      ++certain;
    }
  }
  certain_.rows += certain;
  ++certain_.sequences;
  certain_.kv_tokens += context + certain;
  certain_.attended_tokens += certain * (context + certain);
  offer.end = rows_.size();
  if (offer.begin == offer.end) return;
  offers_.push_back(offer);

  // Computes each row's gain under the condition that all rows with a higher chance run; among
  // equal chances parents come first.
  sorted_.resize(offer.end - offer.begin);
  for (size_t i = 0; i < sorted_.size(); ++i) sorted_[i] = offer.begin + i;
  std::stable_sort(sorted_.begin(), sorted_.end(),
                   [this](size_t a, size_t b) { return rows_[a].gain > rows_[b].gain; });
  float expected = 1.0f;
  for (const size_t row : sorted_) {
    const float tokens = kTrust * rows_[row].gain;
    rows_[row].gain = std::log1p(tokens / expected);
    expected += tokens;
  }
}

void GuessRows::leave_out(const StepScheduler& scheduler, int64_t held_up, int32_t prompt_rows) {
  if (rows_.empty()) return;
  StepLoad load = certain_;
  load.rows += prompt_rows;
  gains_.clear();
  for (const Row& row : rows_) gains_.push_back(row.gain);
  std::sort(gains_.begin(), gains_.end(), std::greater<float>());
  const auto taken = static_cast<size_t>(scheduler.verification_rows(load, gains_, held_up));
  if (taken == gains_.size()) return;
  // Among rows with the same gain as the last one taken, takes the first ones: parents come before
  // their children.
  const float min_gain = taken > 0 ? gains_[taken - 1] : INFINITY;
  auto equal =
      std::count(gains_.begin(), gains_.begin() + static_cast<std::ptrdiff_t>(taken), min_gain);
  for (const Offer& offer : offers_) {
    size_t next = offer.begin;
    int32_t idx = 0;
    std::erase_if(offer.item->rows, [&](const WorkRow&) {
      if (next == offer.end || rows_[next].idx != idx++) return false;
      const float gain = rows_[next++].gain;
      return gain < min_gain || (gain == min_gain && equal-- <= 0);
    });
  }
}

}  // namespace forerun
