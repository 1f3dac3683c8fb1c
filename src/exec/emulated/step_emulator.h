// The emulated executor is a RealExecutor with wrapped runners: results and bookkeeping are real,
// and every Step lasts as long as a profile says for its rows and context. Threads sleep for the
// rest of the time and never spin, so Steps of two roles overlap on any number of processors.
//
// A target that the profile cuts into stages becomes a pipeline (emulated_pipeline.h): several of
// its Steps are under way, and the draft has devices of its own.
//
// A Step that takes longer to compute than the profile says is late, and is counted (stats()).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "exec/emulated/step_profile.h"
#include "exec/step_runner.h"
#include "forerun/trace.h"

namespace forerun {

// The clock by which Steps are timed. now() and sleep_until() may be called from any thread.
class SleepClock {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  virtual ~SleepClock() = default;
  virtual time_point now() = 0;
  virtual void sleep_until(time_point when) = 0;
};

class StepEmulator {
 public:
  // `one_step_at_a_time`: the wrapped runners share processors, so only one of them computes at a
  // time (they still sleep concurrently). `clock` null: the machine's clock. The clock must outlive
  // the runners.
  StepEmulator(StepProfile profile, bool one_step_at_a_time, SleepClock* clock = nullptr);
  StepEmulator(const StepEmulator&) = delete;
  StepEmulator& operator=(const StepEmulator&) = delete;

  const StepProfile& profile() const { return profile_; }
  // Wraps `runner` so that its Steps last as long as the profile says. The emulator must outlive
  // the result, and the profile must have times of `role`. A Step that fails returns at once.
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
