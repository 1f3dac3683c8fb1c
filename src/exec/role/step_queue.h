// The ready sequences in the order in which a Step takes their rows: those that decode or verify,
// then prompts. Within each kind higher priorities come first, and prompts in the order of arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/role/role_sequence.h"

namespace forerun {

class StepQueue {
 public:
  struct Entry {
    bool prompt = false;
    bool is_overdue = false;  // comes first among prompts or decoding rows, whatever its priority
    int32_t priority = 0;
    uint64_t order = 0;  // decoding: place among the ready ones; prompts: order of arrival
    RoleSequence* sequence = nullptr;
  };

  // Orders the sequences. If fifteen Steps in a row had no room for a sequence of lower priority
  // (RoleSequence::passed_over), it goes first among its kind, one such sequence in fifteen Steps.
  // So it progresses however many requests of higher priority come.
  void set(std::span<RoleSequence* const> ready);

  std::span<const Entry> all() const { return entries_; }
  std::span<const Entry> decoding() const { return all().first(decoding_); }
  std::span<const Entry> prompts() const { return all().subspan(decoding_); }

 private:
  void mark_overdue();

  std::vector<Entry> entries_;
  size_t decoding_ = 0;              // number of entries at the front that decode
  int32_t steps_since_overdue_ = 0;  // Steps since the last overdue entry
};

}  // namespace forerun
