// A runner of Steps on a decoder of any backend that samples on a group of CPU devices. It first
// runs the decoder's forward pass, then the rows that want something, divided among the devices'
// threads. One thread of every device samples each row, on the device's part of the vocabulary. If
// logits stay on a GPU, the runner asks for their summaries.
#pragma once

#include <span>
#include <vector>

#include "device/cpu/device_group.h"
#include "exec/step_runner.h"
#include "model/decoder.h"
#include "sampling/edit_list.h"

namespace forerun {

class DecoderStepRunner : public StepRunner {
 public:
  // `decoder` must have the group's degree. Both must outlive the runner; `devices` may serve other
  // runners if only one runs at a time. `live_vocab` is at most the decoder's vocabulary.
  DecoderStepRunner(Decoder* decoder, CpuDeviceGroup* devices, int32_t live_vocab);

  const ModelConfig& config() const override { return decoder_->config(); }
  int32_t live_vocab() const override { return live_vocab_; }
  int64_t kv_blocks() const override { return decoder_->kv_blocks(); }
  int64_t kv_block_bytes() const override { return decoder_->kv_block_bytes(); }
  int64_t tap_places() const override { return decoder_->tap_places(); }
  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override {
    return decoder_->move_kv(sequence, moves);
  }
  bool has_host_kv() const override { return decoder_->has_host_kv(); }

 private:
  struct alignas(64) Worker {
    SamplerScratch scratch;
    std::vector<TokenId> children;
    // Every device computes every answer; the runner returns that of rank 0, and the other devices
    // write theirs here.
    RowResult row_result;
    WorkResult result;
  };
  // Fills queries_ and edits_ for the Step's rows with logits.
  void ask(const Step& step, std::span<const RowTask> tasks,
           std::span<const RejectionTask> rejections);
  // Adds a row's query, with the edits of its logits that its context requires.
  void ask_row(const RowContext& context, const RowQuery& query, int32_t logits_row);
  // Returns whether sampling all tasks on the calling thread probably takes less time than waking
  // the threads.
  bool is_brief(std::span<const RowTask> tasks, size_t num_rejections) const;
  // Performs the tasks for which summaries suffice on the calling thread, and adds the others to
  // remaining_.
  void perform_summarized(std::span<RowTask> tasks, size_t num_rejections);
  // Performs one task. `peers` is null for a model on one device. `on_device` is null if the logits
  // are the decoder's.
  void perform(size_t index, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
               Collectives* peers, Worker& worker, DeviceLogits* on_device = nullptr);

  Decoder* decoder_;
  CpuDeviceGroup* devices_;
  int32_t live_vocab_;
  std::vector<std::vector<Worker>> workers_;  // [device][member of its team]
  std::vector<RowQuery> queries_;
  EditList edits_;                 // edits that the queries refer to
  std::vector<size_t> remaining_;  // indices of tasks, then rejections, that are still to do
};

// Returns the number of token ids that both a draft and its target know: the smaller live
// vocabulary. `draft` may be null.
int32_t common_live_vocab(const ModelConfig& target, const ModelConfig* draft);

}  // namespace forerun
