// A runner that replaces a model: its KV slots hold hashes of histories, and an AcceptanceSource
// gives the answers. Everything around it (slots, edits, merged Steps, block tables) is that of the
// real executor.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/step_runner.h"
#include "simulation/acceptance_source.h"
#include "simulation/slot_histories.h"

namespace forerun {

class SimulatedRunner : public StepRunner {
 public:
  // `acceptance` must outlive the runner.
  SimulatedRunner(const AcceptanceSource* acceptance, int64_t kv_blocks);

  const ModelConfig& config() const override { return config_; }
  int32_t live_vocab() const override { return config_.vocab_size; }
  int64_t kv_blocks() const override { return histories_.kv_blocks(); }
  int64_t kv_block_bytes() const override { return 0; }
  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override {
    histories_.move(sequence, moves);
    return {};
  }

 private:
  const AcceptanceSource* acceptance_;
  ModelConfig config_;
  SlotHistories histories_;
  std::vector<uint64_t> wanted_;  // histories of the Step's rows that want logits
};

}  // namespace forerun
