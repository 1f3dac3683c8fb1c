// Emulates, in real time, a target that is cut into stages on another machine: another runner
// computes each whole Step as soon as it is issued, on the caller's thread, and its events are sent
// when the Step would have passed the profile's stages and links (StageTimeline).
//
// A Step that has not been computed by then is late: it retires once it has been computed, and is
// counted.
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
  // Takes `runner`. `profile`, which must have stages, must outlive the object. `count` is called
  // for every Step, from the object's own thread, with how late the Step was; 0: in time.
  // `computing`: a lock held while the runner computes; may be null.
  EmulatedPipeline(std::unique_ptr<StepRunner> runner, const StepProfile* profile,
                   std::function<void(std::chrono::nanoseconds late)> count, std::mutex* computing);
  ~EmulatedPipeline() override;  // no Step may be under way

  // Runs the Step at once, without waiting for the emulated time.
  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override;
  int32_t num_stages() const override { return profile_->stages->stages; }
  uint64_t issue(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
                 std::span<const int32_t> dropped,
                 const std::function<void(PipelineEvent)>* tell) override;
  void drop(std::span<const IssuedRow> rows) override;

 private:
  // The thread that sends events until the object is destroyed.
  void work();
  void tell_of(PipelineEvent event, std::unique_lock<std::mutex>& lock);

  const StepProfile* const profile_;
  const std::function<void(std::chrono::nanoseconds late)> count_;
  std::mutex* const computing_;
  uint64_t issued_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  StageTimeline timeline_;
  std::map<uint64_t, Status> computed_;  // statuses of Steps under way
  const std::function<void(PipelineEvent)>* tell_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace forerun
