// The requests that wait to be admitted, and which of them is next: the one of the highest priority
// (waiting raises it), or one of a class that higher classes have kept waiting for too long
// (docs/decisions/0049-priorities.md). A class is all waiting requests of one declared priority;
// within a class, those that came first go first.
//
// One thread. The work of a call grows with the number of classes, except keep_if(), which visits
// every request.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace forerun {

template <class Entry>
class WaitingRequests {
 public:
  using Clock = std::chrono::steady_clock;

  // A waiting class is owed this share of the tokens that requests of higher classes get, less the
  // tokens that its own requests get: about a tenth of all tokens where requests are alike.
  static constexpr double kShare = 1.0 / 8;
  // A class's first request goes next once the class is owed this many tokens.
  static constexpr double kOwedTokens = 16.0;

  // A request gains one level of priority each time that it has waited for `ageing`; 0: never.
  explicit WaitingRequests(Clock::duration ageing) : ageing_(ageing) {}

  bool empty() const { return classes_.empty(); }

  void push_back(int32_t priority, Entry entry, Clock::time_point now) {
    classes_[priority].waiting.push_back({std::move(entry), now});
  }
  // For a request that was preempted: puts it at the front of its class. `since`: now, less the
  // time that it has waited before.
  void push_front(int32_t priority, Entry entry, Clock::time_point since) {
    classes_[priority].waiting.push_front({std::move(entry), since});
  }

  // The first of a class. Valid until the next change.
  struct Next {
    Entry* entry = nullptr;
    int32_t priority = 0;  // declared
    // `priority` plus what waiting has added; at least the level of those that it overtakes.
    int32_t level = 0;
    bool is_owed = false;  // it overtakes requests of a higher level
    Clock::time_point since{};
  };
  // The first request of the class that is owed most, where that reaches kOwedTokens; otherwise
  // next_by_level(). Must not be empty().
  Next next(Clock::time_point now) {
    Next highest = next_by_level(now);
    auto most_owed = classes_.end();
    for (auto each = classes_.begin(); each != classes_.end(); ++each) {
      if (each->second.owed < kOwedTokens) continue;
      if (most_owed == classes_.end() || each->second.owed > most_owed->second.owed)
        most_owed = each;
    }
    if (most_owed == classes_.end() || most_owed->first == highest.priority) return highest;
    Waiting& first = most_owed->second.waiting.front();
    return {&first.entry, most_owed->first, highest.level, true, first.since};
  }
  // The first request of the highest level. Must not be empty().
  Next next_by_level(Clock::time_point now) {
    Next next;
    for (auto& [priority, group] : classes_) {
      Waiting& first = group.waiting.front();
      const int32_t level = level_of(priority, first.since, now);
      if (next.entry != nullptr && level <= next.level) continue;
      next = {&first.entry, priority, level, false, first.since};
    }
    return next;
  }
  // The first request of the highest declared priority. Must not be empty().
  Next most_urgent(Clock::time_point now) {
    auto& [priority, group] = *classes_.begin();
    Waiting& first = group.waiting.front();
    return {&first.entry, priority, level_of(priority, first.since, now), false, first.since};
  }
  int32_t highest_priority() const { return classes_.begin()->first; }
  // Removes and returns the first request of a class.
  Entry pop(int32_t priority) {
    const auto found = classes_.find(priority);
    Entry entry = std::move(found->second.waiting.front().entry);
    found->second.waiting.pop_front();
    // The class has had its turn: its next request is owed only what accrues from now on.
    found->second.owed = std::min(found->second.owed, 0.0);
    if (found->second.waiting.empty()) classes_.erase(found);
    return entry;
  }

  // A request of declared `priority` has put out `tokens`.
  void note_served(int32_t priority, int64_t tokens) {
    for (auto& [waiting, group] : classes_) {
      if (waiting < priority) group.owed += kShare * static_cast<double>(tokens);
      if (waiting == priority) group.owed -= static_cast<double>(tokens);
      group.owed = std::clamp(group.owed, -kMaxOwedTokens, kMaxOwedTokens);
    }
  }

  // Calls visit(entry) for every waiting request and drops those for which it returns false.
  void keep_if(const std::function<bool(Entry&)>& visit) {
    for (auto each = classes_.begin(); each != classes_.end();) {
      std::erase_if(each->second.waiting, [&](Waiting& waits) { return !visit(waits.entry); });
      each = each->second.waiting.empty() ? classes_.erase(each) : std::next(each);
    }
  }

 private:
  // Bounds the account, so that a class that got much, or waited for long, is not repaid for
  // minutes.
  static constexpr double kMaxOwedTokens = 1024.0;

  struct Waiting {
    Entry entry;
    Clock::time_point since;
  };
  struct Class {
    std::deque<Waiting> waiting;  // at least one
    double owed = 0.0;            // tokens, since the class began to wait
  };

  int32_t level_of(int32_t priority, Clock::time_point since, Clock::time_point now) const {
    if (ageing_ <= Clock::duration::zero() || now <= since) return priority;
    const int64_t gained = (now - since) / ageing_;
    constexpr int64_t kHighest = std::numeric_limits<int32_t>::max();
    return static_cast<int32_t>(std::min(kHighest, priority + std::min(gained, 3 * kHighest)));
  }

  const Clock::duration ageing_;
  std::map<int32_t, Class, std::greater<>> classes_;  // by declared priority, the highest first
};

}  // namespace forerun
