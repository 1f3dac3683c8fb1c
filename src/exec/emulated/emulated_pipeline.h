// An emulation, in real time, of a target that is cut into stages on another machine. Another
// runner computes each whole Step on the caller's thread as soon as it is issued; the events follow
// when the Step would have passed the profile's stages and links (StageTimeline).
//
// If the computation takes longer, the Step is late: it retires once it has been computed, and
// counts as late.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/emulated/stage_timeline.h"
#include "exec/forwarding_runner.h"

namespace forerun {

class EmulatedPipeline : public ForwardingRunner<PipelinedRunner> {
 public:
  // Takes `runner`. `profile` must have stages and outlive the object. The object's own thread
  // calls `count` for every Step with its delay, 0 if it was in time. `computing` is a lock to hold
  // while the runner computes; it may be null.
  EmulatedPipeline(std::unique_ptr<StepRunner> runner, const StepProfile* profile,
                   std::function<void(std::chrono::nanoseconds late)> count, std::mutex* computing);
  ~EmulatedPipeline() override;  // no Step may be in flight

  // Runs the Step at once, without waiting for the emulated time.
  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override;
  int32_t num_stages() const override { return profile_->stages->stages; }
  uint64_t issue(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
                 std::span<const int32_t> dropped,
                 const std::function<void(PipelineEvent)>* tell) override;
  void drop(std::span<const IssuedRow> rows) override;

 private:
  // Sends events on the object's thread until the object is destroyed.
  void work();
  void tell_of(PipelineEvent event, std::unique_lock<std::mutex>& lock);

  const StepProfile* const profile_;
  const std::function<void(std::chrono::nanoseconds late)> count_;
  std::mutex* const computing_;
  uint64_t issued_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  StageTimeline timeline_;
  std::map<uint64_t, Status> computed_;  // status of each Step in flight
  const std::function<void(PipelineEvent)>* tell_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace forerun
