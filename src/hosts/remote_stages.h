// The coordinator's end of a pipeline with stages in other processes. It sends Steps to the first
// stage, their tasks to the last stage and drops to all stages; entry notices and answers come
// back.
//
// If a rank is lost, or works on a Step for too long (step_deadlines.h), the pipeline ends: all
// Steps in flight and all later ones fail, and the message names the rank.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "exec/stages/stage_transport.h"
#include "forerun/status.h"
#include "hosts/hosts.h"
#include "hosts/step_deadlines.h"

namespace forerun {

class RemoteStages : public StageTransport {
 public:
  // `hosts`, the coordinator's, must outlive the object.
  RemoteStages(Hosts* hosts, const PipelineFacts& facts, const StepDeadlineOptions& deadlines = {});
  ~RemoteStages() override;

  const PipelineFacts& facts() const override { return facts_; }
  void issue(StepInTransit step) override;
  void drop(std::span<const IssuedRow> rows) override;
  std::unique_ptr<StageMessage> take_used() override { return std::move(used_); }

 private:
  struct UnderWay {
    uint64_t number = 0;
    std::span<RowTask> tasks;
    std::span<RejectionTask> rejections;
    const std::function<void(PipelineEvent)>* tell = nullptr;
    bool entered = false;
    int64_t start_ns = 0;  // time when the first stage was free for it, by this process's clock
  };
  void take_in(Incoming&& incoming);
  Status note_entered(const Incoming& incoming);
  Status note_retired(const Incoming& incoming);
  void tell_entered(UnderWay& step);
  // `rank`: the rank where the failure began.
  void fail(const Status& why, int32_t rank);
  void end_under_way();
  void look_for_late_stages();

  Hosts* const hosts_;
  const PipelineFacts facts_;
  std::unique_ptr<StageMessage> used_;
  std::mutex mutex_;  // guards the members below
  std::deque<UnderWay> under_way_;
  int64_t entered_ns_ = 0;  // time when the first stage finished the last Step that it has reported
  Status failed_;
  StepDeadlines deadlines_;
  bool stopping_ = false;
  std::condition_variable stop_;
  std::thread watch_;
};

}  // namespace forerun
