// A real model's Steps, for the time they take, with an AcceptanceSource's answers: how fast a
// strategy is on this machine at an acceptance, a context and a batch for which nobody has a pair
// of models or the patience (a paper's figures at 32,000 tokens). What the model would have said is
// computed and dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/forwarding_runner.h"
#include "simulation/acceptance_source.h"
#include "simulation/slot_histories.h"

namespace forerun {

class ReplayedRunner : public ForwardingRunner<StepRunner> {
 public:
  // `acceptance` must outlive the runner. `skips_prompts`: Steps of more than kPromptRows rows a
  // sequence are not run, and KV holds whatever the memory holds, which takes as long to read. For
  // all to begin to decode at the same time a Step must have room for all prompts.
  static constexpr size_t kPromptRows = 64;
  ReplayedRunner(std::unique_ptr<StepRunner> real, const AcceptanceSource* acceptance,
                 bool skips_prompts);

  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;

 private:
  const AcceptanceSource* const acceptance_;
  const bool skips_prompts_;
  SlotHistories histories_;
  std::vector<uint64_t> wanted_;  // of the Step's rows that want logits
};

}  // namespace forerun
