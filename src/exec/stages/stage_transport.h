// The transport of Steps from a pipeline's coordinator to its stages, and of results back. Stages
// are threads of this process (stage_threads.h) or other processes (hosts/remote_stages.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "checkpoint/model_config.h"
#include "exec/stages/stage_message.h"
#include "exec/step_runner.h"

namespace forerun {

// A Step in flight: its message, and its tasks, which stay with the coordinator.
struct StepInTransit {
  std::unique_ptr<StageMessage> message;
  std::span<RowTask> tasks;  // as in PipelinedRunner::issue()
  std::span<RejectionTask> rejections;
  const std::function<void(PipelineEvent)>* tell = nullptr;
};

// The properties of the whole pipeline.
struct PipelineFacts {
  const ModelConfig* config = nullptr;  // configuration of the whole model
  int32_t live_vocab = 0;
  int64_t kv_blocks = 0;  // KV blocks per stage
  int64_t kv_block_bytes = 0;
  int64_t tap_places = 0;  // tap places of the last stage; 0 if Steps may keep no hidden states
  int32_t num_stages = 0;
};

class StageTransport {
 public:
  virtual ~StageTransport() = default;  // no Step may be in flight
  virtual const PipelineFacts& facts() const = 0;
  // Sends a Step after the earlier ones; Steps have numbers 1, 2, 3 and so on. Only one thread at a
  // time may call it. The transport's threads call `step.tell` with the events that PipelineEvent
  // describes.
  virtual void issue(StepInTransit step) = 0;
  // Tells every stage which rows it may leave out. Only one thread at a time may call it.
  virtual void drop(std::span<const IssuedRow> rows) = 0;
  // Returns a message that is no longer needed, to reuse its memory, or null. Called on the issuing
  // thread.
  virtual std::unique_ptr<StageMessage> take_used() = 0;
};

}  // namespace forerun
