// One stage of a pipeline. For each message, in order, it moves KV, runs its layers and writes the
// hidden rows into the message for the next stage, and the taps that it has kept; the last stage
// puts the taps of all others into its store, and samples.
//
// Thread rules: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/cpu/device_group.h"
#include "exec/decoder_step_runner.h"
#include "exec/stages/cancelled_rows.h"
#include "exec/stages/stage_message.h"
#include "exec/step_runner.h"
#include "forerun/status.h"
#include "model/decoder.h"

namespace forerun {

struct PipelineStage {
  Decoder* decoder = nullptr;
  // The CPU devices that the stage's thread belongs to; for the last stage those that sample, of
  // the decoder's degree. Null: the decoder uses no processors.
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
  // Carries out a message. `so_far`: the Step's status from the stages before; if that is a
  // failure, only the moves are carried out, since later Steps rely on them, and the failure is
  // returned. Dropped rows are left out, and their tasks come back as skipped; rows that are
  // dropped while the stage computes are left out of the message for the next stage. `tasks` and
  // `rejections` are used by the last stage. A failure of this stage is returned with the stage's
  // number, and leaves the KV of the rows undefined.
  Status run(StageMessage& message, const Status& so_far, const CancelledRows& dropped,
             std::span<RowTask> tasks, std::span<RejectionTask> rejections);
  // Rows of the last message that the stage has run.
  int32_t rows_run() const { return rows_run_; }

 private:
  Status carry_out(StageMessage& message, const Status& so_far, const CancelledRows& dropped,
                   std::span<RowTask> tasks, std::span<RejectionTask> rejections);
  // Runs step_, and leaves in the message what the next stage needs.
  Status hand_on(StageMessage& message);

  PipelineStage parts_;
  const int32_t stage_idx_;
  const int32_t num_stages_;
  int32_t rows_run_ = 0;
  std::unique_ptr<DecoderStepRunner> last_;  // null: there are stages behind it
  Step step_;
  std::vector<std::byte> kept_taps_;  // what is kept of step_
};

}  // namespace forerun
