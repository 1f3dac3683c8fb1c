// How Steps get from the coordinator of a pipeline to its stages, and what becomes of them back:
// stages are threads of this process (stage_threads.h) or other processes (hosts/remote_stages.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "checkpoint/model_config.h"
#include "exec/stages/stage_message.h"
#include "exec/step_runner.h"

namespace forerun {

// A Step on its way, with what stays with the coordinator.
struct StepInTransit {
  std::unique_ptr<StageMessage> message;
  std::span<RowTask> tasks;  // as PipelinedRunner::issue()'s
  std::span<RejectionTask> rejections;
  const std::function<void(PipelineEvent)>* tell = nullptr;
};

// Facts of the whole pipeline.
struct PipelineFacts {
  const ModelConfig* config = nullptr;  // the whole model's
  int32_t live_vocab = 0;
  int64_t kv_blocks = 0;  // of every stage
  int64_t kv_block_bytes = 0;
  int32_t num_stages = 0;
};

class StageTransport {
 public:
  virtual ~StageTransport() = default;  // no Step may be under way
  virtual const PipelineFacts& facts() const = 0;
  // Puts a Step on its way behind those before it; their numbers count up by one from 1. From one
  // thread at a time. `step.tell` is called from threads of the transport's, as PipelineEvent says.
  virtual void issue(StepInTransit step) = 0;
  // Tells every stage of rows that it may leave out. From one thread at a time.
  virtual void drop(std::span<const IssuedRow> rows) = 0;
  // A message that is needed no more, for its memory; null: there is none. From the thread that
  // issues.
  virtual std::unique_ptr<StageMessage> take_used() = 0;
};

}  // namespace forerun
