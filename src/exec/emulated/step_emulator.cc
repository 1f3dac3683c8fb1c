#include "exec/emulated/step_emulator.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "exec/emulated/emulated_pipeline.h"
#include "exec/forwarding_runner.h"

namespace forerun {
namespace {

using std::chrono::nanoseconds;

class MachineClock : public SleepClock {
 public:
  time_point now() override { return std::chrono::steady_clock::now(); }
  void sleep_until(time_point when) override {
    // By default Linux may end a sleep 50 us late, which is 2% of a draft Step.
    thread_local const bool precise = prctl(PR_SET_TIMERSLACK, 1000UL) == 0;
    static_cast<void>(precise);
    std::this_thread::sleep_until(when);
  }
};

}  // namespace

// A runner with emulated durations. KV moves run on the caller's thread alone, even while the other
// model computes.
class StepEmulator::Runner : public ForwardingRunner<StepRunner> {
 public:
  Runner(Role role, std::unique_ptr<StepRunner> runner, StepEmulator* emulator)
      : ForwardingRunner(std::move(runner)), role_(role), emulator_(*emulator) {}

  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override {
    SleepClock& clock = *emulator_.clock_;
    const double seconds = emulator_.profile_.costs.seconds(role_, load_of(step));
    const auto end = clock.now() + std::chrono::duration_cast<SleepClock::time_point::duration>(
                                       std::chrono::duration<double>(seconds));
    {
      const auto lock = emulator_.one_step_at_a_time_ ? std::unique_lock(emulator_.computing_)
                                                      : std::unique_lock<std::mutex>();
      FORERUN_RETURN_IF_ERROR(inner().run(step, tasks, rejections, meanwhile));
    }
    const auto now = clock.now();
    emulator_.count(std::max(now - end, SleepClock::time_point::duration(0)));
    if (now < end) clock.sleep_until(end);
    return {};
  }

 private:
  const Role role_;
  StepEmulator& emulator_;
};

StepEmulator::StepEmulator(StepProfile profile, bool one_step_at_a_time, SleepClock* clock)
    : profile_(std::move(profile)),
      one_step_at_a_time_(one_step_at_a_time),
      own_clock_(clock == nullptr ? std::make_unique<MachineClock>() : nullptr),
      clock_(clock == nullptr ? own_clock_.get() : clock) {}

std::unique_ptr<StepRunner> StepEmulator::wrap(Role role, std::unique_ptr<StepRunner> runner) {
  if (role == Role::kTarget && profile_.stages) {
    return std::make_unique<EmulatedPipeline>(
        std::move(runner), &profile_, [this](nanoseconds late) { count(late); },
        one_step_at_a_time_ ? &computing_ : nullptr);
  }
  return std::make_unique<Runner>(role, std::move(runner), this);
}

void StepEmulator::count(nanoseconds late) {
  steps_.fetch_add(1, std::memory_order_relaxed);
  if (late <= nanoseconds(0)) return;
  late_steps_.fetch_add(1, std::memory_order_relaxed);
  late_ns_.fetch_add(late.count(), std::memory_order_relaxed);
}

EmulationStats StepEmulator::stats() const {
  EmulationStats stats;
  stats.steps = steps_.load(std::memory_order_relaxed);
  stats.late_steps = late_steps_.load(std::memory_order_relaxed);
  stats.late_seconds = 1e-9 * static_cast<double>(late_ns_.load(std::memory_order_relaxed));
  return stats;
}

}  // namespace forerun
