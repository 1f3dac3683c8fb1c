#include "exec/role/turn_order.h"

#include <algorithm>
#include <array>
#include <limits>

namespace forerun {

void TurnOrder::mark_overdue() {
  constexpr int32_t kMaxPassedOver = 15;
  if (++steps_since_overdue_ < kMaxPassedOver) return;
  std::array<int32_t, 2> highest;  // [0]: of sequences that decode; [1]: of prompts
  highest.fill(std::numeric_limits<int32_t>::min());
  for (const Turn& turn : turns_) {
    highest[turn.prompt] = std::max(highest[turn.prompt], turn.priority);
  }
  Turn* most = nullptr;
  for (Turn& turn : turns_) {
    if (turn.sequence->passed_over < kMaxPassedOver || turn.priority >= highest[turn.prompt]) {
      continue;
    }
    if (most == nullptr || turn.sequence->passed_over > most->sequence->passed_over) most = &turn;
  }
  if (most == nullptr) return;
  most->is_overdue = true;
  steps_since_overdue_ = 0;
}

void TurnOrder::set(std::span<RoleSequence* const> ready) {
  turns_.clear();
  for (size_t place = 0; place < ready.size(); ++place) {
    RoleSequence* const sequence = ready[place];
    const bool prompt = sequence->reads_prompt();
    turns_.push_back({.prompt = prompt,
                      .priority = sequence->spec.priority,
                      .order = prompt ? sequence->arrival : place,
                      .sequence = sequence});
  }
  mark_overdue();
  std::sort(turns_.begin(), turns_.end(), [](const Turn& a, const Turn& b) {
    if (a.prompt != b.prompt) return b.prompt;
    if (a.is_overdue != b.is_overdue) return a.is_overdue;
    return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
  });
  const auto first_prompt =
      std::find_if(turns_.begin(), turns_.end(), [](const Turn& turn) { return turn.prompt; });
  decoding_ = static_cast<size_t>(first_prompt - turns_.begin());
}

}  // namespace forerun
