// What one stage of a pipeline does with the messages that reach it, in their order: moves KV, runs
// its layers, and leaves hidden rows in the message for the stage behind it, or, the last one,
// samples.
//
// Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "device/cpu/device_group.h"
#include "exec/decoder_step_runner.h"
#include "exec/stages/dropped_rows.h"
#include "exec/stages/stage_message.h"
#include "exec/step_runner.h"
#include "forerun/status.h"
#include "model/decoder.h"

namespace forerun {

struct PipelineStage {
  Decoder* decoder = nullptr;
  // Whose work its thread takes part in; of the last stage those that sample, of its degree. Null:
  // the decoder has no processors.
  CpuDeviceGroup* devices = nullptr;
};

class StageWorker {
 public:
  // Stage `stage_idx` of `num_stages`. The decoder and devices must outlive it. `live_vocab`: as
  // DecoderStepRunner's.
  StageWorker(const PipelineStage& parts, int32_t stage_idx, int32_t num_stages,
              int32_t live_vocab);

  bool is_last() const { return last_ != nullptr; }
  const PipelineStage& parts() const { return parts_; }
  // Carries a message out. `so_far`: what stages in front of it say of the Step; where that is a
  // failure the moves alone are carried out, on which later Steps count, and it is returned. Rows
  // that have been dropped are left out, their tasks come back as skipped. `tasks` and
  // `rejections`: the last stage's. A failure of its own is told with the stage's number, and
  // leaves the KV of the rows undefined.
  Status run(StageMessage& message, const Status& so_far, const DroppedRows& dropped,
             std::span<RowTask> tasks, std::span<RejectionTask> rejections);

 private:
  Status carry_out(StageMessage& message, const Status& so_far, const DroppedRows& dropped,
                   std::span<RowTask> tasks, std::span<RejectionTask> rejections);

  PipelineStage parts_;
  const int32_t stage_idx_;
  const int32_t num_stages_;
  std::unique_ptr<DecoderStepRunner> last_;  // null: there are stages behind it
  Step step_;
};

}  // namespace forerun
