// A model that is none: its KV slots hold hashes of histories, and an AcceptanceSource answers for
// it. Everything around it (slots, edits, merged Steps, block tables) is the real executor's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/acceptance_source.h"
#include "exec/step_profile.h"
#include "exec/step_runner.h"

namespace forerun {

class SimulatedRunner : public StepRunner {
 public:
  // `profile` (which has times of `role`) and `acceptance` must outlive the runner.
  SimulatedRunner(Role role, const StepProfile* profile, const AcceptanceSource* acceptance,
                  int64_t kv_blocks);

  const ModelConfig& config() const override { return config_; }
  int32_t live_vocab() const override { return config_.vocab_size; }
  int64_t kv_blocks() const override {
    return static_cast<int64_t>(histories_.size()) / kKvBlockTokens;
  }
  int64_t kv_block_bytes() const override { return 0; }
  Status run(const Step& step, std::span<RowTask> tasks,
             std::span<RejectionTask> rejections) override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;

  // What the profile says for the Steps since the last call; 0: there was none.
  double take_seconds();

 private:
  uint64_t& history_at(const StepSequence& sequence, int32_t slot);
  void perform(RowTask& task) const;
  void perform(RejectionTask& task) const;

  const Role role_;
  const StepProfile* profile_;
  const AcceptanceSource* acceptance_;
  ModelConfig config_;
  std::vector<uint64_t> histories_;  // by physical slot
  std::vector<uint64_t> wanted_;     // of the Step's rows that want logits
  double seconds_ = 0.0;
};

}  // namespace forerun
