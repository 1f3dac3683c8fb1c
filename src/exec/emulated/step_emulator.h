// The emulated executor: a RealExecutor with wrapped runners. Its results and bookkeeping are real,
// but every Step lasts as long as a profile says for its rows and context. Threads sleep for the
// rest of the time and never spin, so Steps of two roles overlap on any number of cores.
//
// A target with stages in the profile becomes a pipeline (emulated_pipeline.h): several of its
// Steps are in flight, and the draft has its own devices.
//
// A Step whose computation takes longer than the profile's time counts as late (stats()).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "exec/emulated/step_profile.h"
#include "exec/step_runner.h"
#include "forerun/trace.h"

namespace forerun {

// The clock that times Steps. Any thread may call now() and sleep_until().
class SleepClock {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  virtual ~SleepClock() = default;
  virtual time_point now() = 0;
  virtual void sleep_until(time_point when) = 0;
};

class StepEmulator {
 public:
  // With `one_step_at_a_time` the wrapped runners share cores, so only one of them computes at a
  // time (they still sleep concurrently). If `clock` is null, the emulator uses the machine's
  // clock. The clock must outlive the runners.
  StepEmulator(StepProfile profile, bool one_step_at_a_time, SleepClock* clock = nullptr);
  StepEmulator(const StepEmulator&) = delete;
  StepEmulator& operator=(const StepEmulator&) = delete;

  const StepProfile& profile() const { return profile_; }
  // Wraps `runner` so that its Steps last as long as the profile says. The emulator must outlive
  // the result, and the profile must have times for `role`. A failed Step returns at once.
  std::unique_ptr<StepRunner> wrap(Role role, std::unique_ptr<StepRunner> runner);
  // Returns the counts of all Steps so far; any thread may call it.
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
