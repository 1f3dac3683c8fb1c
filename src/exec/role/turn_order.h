// The order in which sequences that are ready get their turns in a Step: those that decode or
// verify first, then prompts; within each, higher priorities first, and prompts in the order of
// arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/role/role_sequence.h"

namespace forerun {

class TurnOrder {
 public:
  struct Turn {
    bool prompt = false;
    bool is_overdue = false;  // goes first among prompts or decoding rows, whatever its priority
    int32_t priority = 0;
    uint64_t order = 0;  // decoding: the place in the order of turns; prompts: of arrival
    RoleSequence* sequence = nullptr;
  };

  // Orders the sequences. One Step in sixteen gives the first turn to a sequence below the highest
  // priority for which the last fifteen Steps had no room (RoleSequence::passed_over), so that it
  // progresses however many requests of higher priority come.
  void set(std::span<RoleSequence* const> ready);

  std::span<const Turn> all() const { return turns_; }
  std::span<const Turn> decoding() const { return all().first(decoding_); }
  std::span<const Turn> prompts() const { return all().subspan(decoding_); }

 private:
  void mark_overdue();

  std::vector<Turn> turns_;
  size_t decoding_ = 0;              // how many turns, from the first, are of sequences that decode
  int32_t steps_since_overdue_ = 0;  // Steps since the last overdue turn
};

}  // namespace forerun
