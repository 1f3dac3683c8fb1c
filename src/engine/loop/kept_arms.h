// Stores the measurements of the arms of `auto` for later starts: at the engine's end, and while
// the engine is idle, at most once a minute.
//
// Thread rules: one thread at a time; the loop's while it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "engine/loop/auto_strategy.h"
#include "planner/arm_store.h"

namespace forerun {

class KeptArms {
 public:
  // `automatic` must outlive the object.
  KeptArms(AutoStrategy* automatic, ArmStore store)
      : automatic_(automatic), store_(std::move(store)) {}

  // Passes the measurements of an earlier start to the strategy. Returns a line for the planner's
  // report; empty if there are none.
  std::string recall();
  void note_idle(std::chrono::steady_clock::time_point now);
  // Writes the measurements, unless none was added since the last call.
  void keep();

 private:
  AutoStrategy* const automatic_;
  ArmStore store_;
  int64_t kept_measurements_ = 0;
  std::chrono::steady_clock::time_point next_ = {};
};

}  // namespace forerun
