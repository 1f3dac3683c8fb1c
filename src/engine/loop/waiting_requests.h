// The requests that wait to be admitted, and the choice of the next one: the one of the highest
// priority (waiting raises it), or one of a class that higher classes have kept waiting for too
// long (docs/decisions/0049-priorities.md). A class is all waiting requests of one declared
// priority; within a class, earlier requests go first.
//
// Thread rules: one thread. The work of a call grows with the number of classes, except for
// keep_if(), which visits every request.
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

  // A waiting class is owed this share of the tokens that requests of higher classes get, minus the
  // tokens of its own requests: about a tenth of all tokens if requests are alike.
  static constexpr double kShare = 1.0 / 8;
  // Number of owed tokens at which a class's first request goes next.
  static constexpr double kOwedTokens = 16.0;

  // A request gains one level of priority each time it has waited for `ageing`; 0: never.
  explicit WaitingRequests(Clock::duration ageing) : ageing_(ageing) {}

  bool empty() const { return classes_.empty(); }

  void push_back(int32_t priority, Entry entry, Clock::time_point now) {
    classes_[priority].waiting.push_back({std::move(entry), now});
  }
  // Puts a preempted request at the front of its class. `since`: now minus the time that it has
  // waited before.
  void push_front(int32_t priority, Entry entry, Clock::time_point since) {
    classes_[priority].waiting.push_front({std::move(entry), since});
  }

  // The first request of a class. Valid until the next change.
  struct Next {
    Entry* entry = nullptr;
    int32_t priority = 0;  // declared
    // `priority` plus the levels gained by waiting; at least the level of those that it overtakes.
    int32_t level = 0;
    bool is_owed = false;  // it overtakes requests of a higher level
    Clock::time_point since{};
  };
  // Returns the first request of the class that is owed most, if that reaches kOwedTokens;
  // otherwise next_by_level(). Must not be empty().
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
  // Returns the first request of the highest level. Must not be empty().
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
  // Returns the first request of the highest declared priority. Must not be empty().
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
    // The class has had its turn: from now on, its next request is owed only new tokens.
    found->second.owed = std::min(found->second.owed, 0.0);
    if (found->second.waiting.empty()) classes_.erase(found);
    return entry;
  }

  // Records that a request with this declared priority has emitted `tokens` tokens; lower classes
  // are owed a share of them.
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
  // Bounds the account, so that a class that got much, or waited for long, is not compensated for
  // minutes.
  static constexpr double kMaxOwedTokens = 1024.0;

  struct Waiting {
    Entry entry;
    Clock::time_point since;
  };
  struct Class {
    std::deque<Waiting> waiting;  // not empty
    double owed = 0.0;            // tokens, since the class began to wait
  };

  int32_t level_of(int32_t priority, Clock::time_point since, Clock::time_point now) const {
    if (ageing_ <= Clock::duration::zero() || now <= since) return priority;
    const int64_t gained = (now - since) / ageing_;
    constexpr int64_t kHighest = std::numeric_limits<int32_t>::max();
    return static_cast<int32_t>(std::min(kHighest, priority + std::min(gained, 3 * kHighest)));
  }

  const Clock::duration ageing_;
  // Keyed by declared priority, the highest first.
  std::map<int32_t, Class, std::greater<>> classes_;
};

}  // namespace forerun
