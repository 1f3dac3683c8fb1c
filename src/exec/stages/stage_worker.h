// One stage of a pipeline. For each message, in order, it moves KV, runs its layers, and writes the
// hidden rows and its taps into the message for the next stage. The last stage puts the taps of all
// stages into its store, and samples.
//
// Only one thread at a time may use it.
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
  // the decoder's degree. Null if the decoder does not use the CPU.
  CpuDeviceGroup* devices = nullptr;
};

class StageWorker {
 public:
  // Makes stage `stage_idx` of `num_stages`. The decoder and devices must outlive it. `live_vocab`
  // is as in DecoderStepRunner.
  StageWorker(const PipelineStage& parts, int32_t stage_idx, int32_t num_stages,
              int32_t live_vocab);

  bool is_last() const { return last_ != nullptr; }
  const PipelineStage& parts() const { return parts_; }
  // Carries out a message. `so_far` is the Step's status from earlier stages; if it is a failure,
  // the stage only carries out the moves, since later Steps rely on them, and returns the failure.
  // It leaves out dropped rows and marks their tasks as skipped; rows dropped during the
  // computation are left out of the message for the next stage. Only the last stage uses `tasks`
  // and `rejections`. A failure of this stage is returned with the stage's number and leaves the KV
  // of the rows undefined.
  Status run(StageMessage& message, const Status& so_far, const CancelledRows& dropped,
             std::span<RowTask> tasks, std::span<RejectionTask> rejections);
  // Returns the rows of the last message that the stage has run.
  int32_t rows_run() const { return rows_run_; }

 private:
  Status carry_out(StageMessage& message, const Status& so_far, const CancelledRows& dropped,
                   std::span<RowTask> tasks, std::span<RejectionTask> rejections);
  // Runs step_, and writes the next stage's input to the message.
  Status hand_on(StageMessage& message);

  PipelineStage parts_;
  const int32_t stage_idx_;
  const int32_t num_stages_;
  int32_t rows_run_ = 0;
  std::unique_ptr<DecoderStepRunner> last_;  // null if there are later stages
  Step step_;
  std::vector<std::byte> kept_taps_;  // taps kept of step_
};

}  // namespace forerun
