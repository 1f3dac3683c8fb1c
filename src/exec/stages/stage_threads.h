// The stages of a pipeline in one process. Each has a thread, which takes messages from the stage
// before it and passes the same objects on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/mailbox.h"
#include "exec/stages/cancelled_rows.h"
#include "exec/stages/stage_transport.h"
#include "exec/stages/stage_worker.h"

namespace forerun {

class StageThreads : public StageTransport {
 public:
  // `stages` are two or more, in order. The first one's decoder embeds, the last one's has the LM
  // head, their layers are consecutive, and all have the same number of KV blocks. If the last one
  // keeps taps, the others keep those of taps_of_stage(). Decoders and devices must outlive the
  // object; no two stages may share devices. `live_vocab` is as in DecoderStepRunner.
  StageThreads(const std::vector<PipelineStage>& stages, int32_t live_vocab);
  ~StageThreads() override;

  const PipelineFacts& facts() const override { return facts_; }
  void issue(StepInTransit step) override;
  void drop(std::span<const IssuedRow> rows) override { dropped_.add(rows); }
  std::unique_ptr<StageMessage> take_used() override;

 private:
  struct Stage;
  // A Step on its way to a stage.
  struct Arrival {
    StepInTransit step;                   // no message ends the stage's thread
    Status status;                        // status of the stages so far
    std::vector<TraceStage> stages = {};  // times of the stages so far
  };
  void work(size_t stage_idx);

  PipelineFacts facts_;
  CancelledRows dropped_;
  std::vector<std::unique_ptr<Stage>> stages_;
  // Messages that have passed the last stage, for their memory.
  Mailbox<std::unique_ptr<StageMessage>> used_;
  std::vector<std::unique_ptr<StageMessage>> free_;
};

}  // namespace forerun
