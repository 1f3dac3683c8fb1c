// A model cut into stages of consecutive layers: every stage has devices, a KV cache of its layers
// and a thread of its own, and works on another Step than its neighbours. A Step's rows go from
// stage to stage as hidden rows (stage_message.h); the last stage samples.
//
// Steps, and the moves of KV between them, take effect at every stage in the order in which they
// were issued. So whoever keeps the books may give slots and blocks away as soon as it has issued
// the Step that uses them last: rows of a later Step arrive at each stage later.
//
// A stage that fails fails that Step, whose rows' KV is then undefined at it and behind it; Steps
// behind it run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/cpu/device_group.h"
#include "exec/cpu_step_runner.h"
#include "exec/mailbox.h"
#include "exec/stages/stage_message.h"
#include "exec/step_runner.h"
#include "model/decoder.h"

namespace forerun {

struct PipelineStage {
  Decoder* decoder = nullptr;
  // Whose work its thread takes part in; of the last stage those that sample, of its degree. Null:
  // the decoder has no processors.
  CpuDeviceGroup* devices = nullptr;
};

// run(), move_kv() and issue() from one thread at a time.
class StagePipeline : public PipelinedRunner {
 public:
  // In order, two or more: the first one's decoder embeds, the last one's has the head, layers
  // follow each other and all have as many KV blocks. Decoders and devices must outlive it; no two
  // stages may share devices. `live_vocab`: as CpuStepRunner's.
  StagePipeline(std::vector<PipelineStage> stages, int32_t live_vocab);
  ~StagePipeline() override;  // no Step may be under way

  const ModelConfig& config() const override { return last_.config(); }
  int32_t live_vocab() const override { return last_.live_vocab(); }
  int64_t kv_blocks() const override { return last_.kv_blocks(); }
  int64_t kv_block_bytes() const override { return kv_block_bytes_; }
  // A Step by itself: issues it and waits until it has retired.
  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override;
  // Carried out in front of the next Step, and at every stage in its turn; what is wrong with moves
  // is told by that Step.
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;
  int32_t num_stages() const override { return static_cast<int32_t>(stages_.size()); }
  uint64_t issue(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
                 std::span<const int32_t> dropped,
                 const std::function<void(PipelineEvent)>* tell) override;
  void drop(std::span<const IssuedRow> rows) override;

 private:
  // A message on its way, with what stays in this process.
  struct Envelope {
    std::unique_ptr<StageMessage> message;  // null: the stage's thread ends
    std::span<RowTask> tasks;
    std::span<RejectionTask> rejections;
    const std::function<void(PipelineEvent)>* tell = nullptr;
    size_t num_rows = 0;  // as it was issued
    Status status;        // of the stages so far
    int64_t start_ns = 0;
  };
  struct Stage;
  void work(size_t stage_idx);
  // What a stage does with a message: moves, layers, and the next stage's hidden rows or the tasks.
  Status run_stage(size_t stage_idx, Envelope& envelope, Step& step);
  void drop_rows(Envelope& envelope);
  // Tasks of rows that are left find them where they are now.
  static void find_rows(const StageMessage& message, std::span<RowTask> tasks);

  CpuStepRunner last_;
  int64_t kv_block_bytes_ = 0;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::unique_ptr<StageMessage> next_;  // with the moves since the last Step
  uint64_t issued_ = 0;
  std::mutex dropping_;
  std::map<uint64_t, std::vector<int32_t>> dropped_;  // by Step; goes when that has retired
  // Messages that have come to the end, for their memory.
  Mailbox<std::unique_ptr<StageMessage>> used_;
  std::vector<std::unique_ptr<StageMessage>> free_;
  Mailbox<PipelineEvent> ran_;  // run()'s
  const std::function<void(PipelineEvent)> tell_ran_;
};

}  // namespace forerun
