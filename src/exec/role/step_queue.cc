#include "exec/role/step_queue.h"

#include <algorithm>
#include <array>
#include <limits>

namespace forerun {

void StepQueue::mark_overdue() {
  constexpr int32_t kMaxPassedOver = 15;
  if (++steps_since_overdue_ < kMaxPassedOver) return;
  std::array<int32_t, 2> highest;  // highest priority of [0] decoding sequences, [1] prompts
  highest.fill(std::numeric_limits<int32_t>::min());
  for (const Entry& entry : entries_) {
    highest[entry.prompt] = std::max(highest[entry.prompt], entry.priority);
  }
  Entry* most = nullptr;
  for (Entry& entry : entries_) {
    if (entry.sequence->passed_over < kMaxPassedOver || entry.priority >= highest[entry.prompt]) {
      continue;
    }
    if (most == nullptr || entry.sequence->passed_over > most->sequence->passed_over) most = &entry;
  }
  if (most == nullptr) return;
  most->is_overdue = true;
  steps_since_overdue_ = 0;
}

void StepQueue::set(std::span<RoleSequence* const> ready) {
  entries_.clear();
  for (size_t place = 0; place < ready.size(); ++place) {
    RoleSequence* const sequence = ready[place];
    const bool prompt = sequence->reads_prompt();
    entries_.push_back({.prompt = prompt,
                        .priority = sequence->spec.priority,
                        .order = prompt ? sequence->arrival : place,
                        .sequence = sequence});
  }
  mark_overdue();
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    if (a.prompt != b.prompt) return b.prompt;
    if (a.is_overdue != b.is_overdue) return a.is_overdue;
    return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
  });
  const auto first_prompt = std::find_if(entries_.begin(), entries_.end(),
                                         [](const Entry& entry) { return entry.prompt; });
  decoding_ = static_cast<size_t>(first_prompt - entries_.begin());
}

}  // namespace forerun
