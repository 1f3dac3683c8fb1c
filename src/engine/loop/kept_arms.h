// Keeps what `auto` has measured of its arms for later starts: at the engine's end, and where the
// engine has nothing to do, once a minute at most.
//
// One thread at a time: the loop's while it runs.
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

  // Hands over what an earlier start has kept. Returns a line for the planner's report; empty if
  // there is nothing.
  std::string recall();
  void note_idle(std::chrono::steady_clock::time_point now);
  // Writes what has been measured, unless nothing has been since the last call.
  void keep();

 private:
  AutoStrategy* const automatic_;
  ArmStore store_;
  int64_t kept_measurements_ = 0;
  std::chrono::steady_clock::time_point next_ = {};
};

}  // namespace forerun
