// A target cut into stages on a machine that is not this one, by the clock on the wall: another
// runner computes each Step whole, as soon as it is issued and on the caller's thread, and what
// becomes of it is told when it would have passed the profile's stages and links (StageTimeline).
//
// A Step that has not been computed by then is late: it retires when it has, and is counted.
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
  // `runner` is kept. `profile`, with stages, must outlive the object. `count`: called for every
  // Step, from a thread of its own, with how late it was, 0 where it was not. `computing`: held
  // while the runner computes; may be null.
  EmulatedPipeline(std::unique_ptr<StepRunner> runner, const StepProfile* profile,
                   std::function<void(std::chrono::nanoseconds late)> count, std::mutex* computing);
  ~EmulatedPipeline() override;  // no Step may be under way

  // At once.
  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override;
  int32_t num_stages() const override { return profile_->stages->stages; }
  uint64_t issue(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
                 std::span<const int32_t> dropped,
                 const std::function<void(PipelineEvent)>* tell) override;
  void drop(std::span<const IssuedRow> rows) override;

 private:
  // Tells of what happens, until the object goes.
  void work();
  void tell_of(PipelineEvent event, std::unique_lock<std::mutex>& lock);

  const StepProfile* const profile_;
  const std::function<void(std::chrono::nanoseconds late)> count_;
  std::mutex* const computing_;
  uint64_t issued_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  StageTimeline timeline_;
  std::map<uint64_t, Status> computed_;  // under way
  const std::function<void(PipelineEvent)>* tell_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace forerun
