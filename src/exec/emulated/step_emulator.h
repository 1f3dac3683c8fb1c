// The emulated executor is a RealExecutor whose runners are wrapped: results and bookkeeping are
// the real ones, and every Step of a role lasts what a profile says for its rows and context. The
// rest of the time is slept, never spun, so Steps of two roles overlap on any number of processors.
//
// A target that the profile cuts into stages becomes a pipeline (emulated_pipeline.h): several of
// its Steps are under way, and draft and target are apart.
//
// A Step whose arithmetic alone takes longer than the profile says is late: it is not hidden, but
// counted (stats()).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "exec/emulated/step_profile.h"
#include "exec/step_runner.h"
#include "forerun/trace.h"

namespace forerun {

// The clock that durations are kept by. now() and sleep_until() from any thread.
class SleepClock {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  virtual ~SleepClock() = default;
  virtual time_point now() = 0;
  virtual void sleep_until(time_point when) = 0;
};

class StepEmulator {
 public:
  // `one_step_at_a_time`: the wrapped runners share processors, so that only one of them computes
  // at a time (they still sleep concurrently). `clock` null: the machine's. It must outlive the
  // runners.
  StepEmulator(StepProfile profile, bool one_step_at_a_time, SleepClock* clock = nullptr);
  StepEmulator(const StepEmulator&) = delete;
  StepEmulator& operator=(const StepEmulator&) = delete;

  const StepProfile& profile() const { return profile_; }
  // A runner whose Steps last as long as the profile's; it keeps `runner`, and the emulator must
  // outlive it. The profile has times of `role`. A Step that fails returns at once.
  std::unique_ptr<StepRunner> wrap(Role role, std::unique_ptr<StepRunner> runner);
  // The counts of all Steps so far; from any thread.
  EmulationStats stats() const;

 private:
  class Runner;
  // Counts a Step that ended `late` after its time.
  void count(std::chrono::nanoseconds late);

  const StepProfile profile_;
  const bool one_step_at_a_time_;
  std::unique_ptr<SleepClock> own_clock_;
  SleepClock* clock_;
  std::mutex computing_;
  std::atomic<int64_t> steps_{0};
  std::atomic<int64_t> late_steps_{0};
  std::atomic<int64_t> late_ns_{0};
};

}  // namespace forerun
