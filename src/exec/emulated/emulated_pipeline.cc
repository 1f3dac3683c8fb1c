#include "exec/emulated/emulated_pipeline.h"

#include <sys/prctl.h>

#include <utility>

#include "base/clocks.h"

namespace forerun {

using std::chrono::nanoseconds;

EmulatedPipeline::EmulatedPipeline(std::unique_ptr<StepRunner> runner, const StepProfile* profile,
                                   std::function<void(nanoseconds late)> count,
                                   std::mutex* computing)
    : ForwardingRunner(std::move(runner)),
      profile_(profile),
      count_(std::move(count)),
      computing_(computing),
      timeline_(
          *profile->stages,
          [profile](const StepLoad& load) { return profile->costs.seconds(Role::kTarget, load); }),
      thread_([this] { work(); }) {}

EmulatedPipeline::~EmulatedPipeline() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Status EmulatedPipeline::run(const Step& step, std::span<RowTask> tasks,
                             std::span<RejectionTask> rejections, const Meanwhile& meanwhile) {
  const auto lock =
      computing_ != nullptr ? std::unique_lock(*computing_) : std::unique_lock<std::mutex>();
  return inner().run(step, tasks, rejections, meanwhile);
}

uint64_t EmulatedPipeline::issue(const Step& step, std::span<RowTask> tasks,
                                 std::span<RejectionTask> rejections,
                                 std::span<const int32_t> dropped,
                                 const std::function<void(PipelineEvent)>* tell) {
  const uint64_t number = ++issued_;
  {
    const std::lock_guard lock(mutex_);
    tell_ = tell;
    if (!rejections.empty()) dropped = {};
    timeline_.issue(number, load_of(step), dropped, steady_ns());
  }
  changed_.notify_one();
  Status status = run(step, tasks, rejections, {});
  {
    const std::lock_guard lock(mutex_);
    computed_[number] = std::move(status);
  }
  changed_.notify_one();
  return number;
}

void EmulatedPipeline::drop(std::span<const IssuedRow> rows) {
  {
    const std::lock_guard lock(mutex_);
    timeline_.drop(rows, steady_ns());
  }
  changed_.notify_one();
}

void EmulatedPipeline::tell_of(PipelineEvent event, std::unique_lock<std::mutex>& lock) {
  if (event.kind == PipelineEvent::Kind::kRetired) {
    changed_.wait(lock, [&] { return computed_.contains(event.step); });
    event.status = std::move(computed_.extract(event.step).mapped());
    const int64_t now_ns = steady_ns();
    // A Step counts as late only beyond the time that a thread needs to wake.
    constexpr int64_t kPrompt = 1'000'000;
    const bool late = now_ns > event.end_ns + kPrompt;
    if (count_) count_(nanoseconds(late ? now_ns - event.end_ns : 0));
  }
  const auto* const tell = tell_;  // the caller may issue the next Step meanwhile
  lock.unlock();
  (*tell)(std::move(event));
  lock.lock();
}

void EmulatedPipeline::work() {
  prctl(PR_SET_TIMERSLACK, 1000UL);
  std::vector<PipelineEvent> events;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next_ns = timeline_.next_ns();
    if (!next_ns) {
      changed_.wait(lock);
      continue;
    }
    const int64_t now_ns = steady_ns();
    if (*next_ns > now_ns) {
      changed_.wait_for(lock, nanoseconds(*next_ns - now_ns));
      continue;
    }
    timeline_.advance(now_ns, events);
    for (PipelineEvent& event : events) tell_of(std::move(event), lock);
    events.clear();
  }
}

}  // namespace forerun
