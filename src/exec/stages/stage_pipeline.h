// A model cut into stages of consecutive layers. Every stage has its own devices, KV cache of its
// layers, and thread or process, and works on another Step than its neighbours. A Step's rows go
// from stage to stage as hidden rows (stage_message.h); the last stage samples. This class is the
// coordinator's side: it makes the messages and sends them (stage_transport.h).
//
// Steps, and the KV moves between them, take effect at every stage in the order of issue. So the
// caller may reuse slots and blocks as soon as it has issued the last Step that uses them: rows of
// a later Step reach each stage later.
//
// If a stage fails, its Step fails, and the KV of the Step's rows is undefined at that stage and
// the later ones. Later Steps still run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "exec/mailbox.h"
#include "exec/stages/stage_message.h"
#include "exec/stages/stage_transport.h"
#include "exec/step_runner.h"

namespace forerun {

// Only one thread at a time may call run(), move_kv() and issue().
class StagePipeline : public PipelinedRunner {
 public:
  explicit StagePipeline(std::unique_ptr<StageTransport> transport);

  const ModelConfig& config() const override { return *transport_->facts().config; }
  int32_t live_vocab() const override { return transport_->facts().live_vocab; }
  int64_t kv_blocks() const override { return transport_->facts().kv_blocks; }
  int64_t kv_block_bytes() const override { return transport_->facts().kv_block_bytes; }
  int64_t tap_places() const override { return transport_->facts().tap_places; }
  // Issues a Step and waits until it has retired.
  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override;
  // Adds moves, which each stage in turn carries out before the next Step; that Step reports their
  // errors.
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;
  int32_t num_stages() const override { return transport_->facts().num_stages; }
  uint64_t issue(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
                 std::span<const int32_t> dropped,
                 const std::function<void(PipelineEvent)>* tell) override;
  void drop(std::span<const IssuedRow> rows) override { transport_->drop(rows); }

 private:
  std::unique_ptr<StageMessage> next_;  // the next message, with the moves since the last Step
  uint64_t issued_ = 0;
  Mailbox<PipelineEvent> ran_;  // events of the Step in run()
  const std::function<void(PipelineEvent)> tell_ran_;
  // The last member, because its threads use the others.
  std::unique_ptr<StageTransport> transport_;
};

}  // namespace forerun
