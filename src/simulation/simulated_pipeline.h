// A target with pipeline stages, in virtual time. Another runner answers whole Steps as soon as
// they are issued, and a StageTimeline computes when they would have passed the stages.
//
// Thread rules: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exec/emulated/stage_timeline.h"
#include "exec/forwarding_runner.h"

namespace forerun {

class SimulatedPipeline : public ForwardingRunner<PipelinedRunner> {
 public:
  // `profile` (with stages) and `now_ns`, the present time of the virtual clock, must outlive the
  // object. A Step reaches the first stage `host_seconds` after it has been issued.
  SimulatedPipeline(std::unique_ptr<StepRunner> answers, const StepProfile* profile,
                    const int64_t* now_ns, double host_seconds);

  // Runs a Step without advancing the virtual time.
  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override {
    return inner().run(step, tasks, rejections, meanwhile);
  }
  int32_t num_stages() const override { return profile_->stages->stages; }
  // Issues a Step; advance() calls `tell`.
  uint64_t issue(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
                 std::span<const int32_t> dropped,
                 const std::function<void(PipelineEvent)>* tell) override;
  void drop(std::span<const IssuedRow> rows) override;

  // Returns the time of the next event (StageTimeline).
  std::optional<int64_t> next_ns() const { return timeline_.next_ns(); }
  // Reports all events up to the present time.
  void advance();

 private:
  const StepProfile* const profile_;
  const int64_t* const now_ns_;
  const int64_t host_ns_;
  StageTimeline timeline_;
  uint64_t issued_ = 0;
  std::map<uint64_t, Status> outcomes_;  // outcome of each issued Step that has not completed
  const std::function<void(PipelineEvent)>* tell_ = nullptr;
  std::vector<PipelineEvent> events_;  // reused memory
};

}  // namespace forerun
