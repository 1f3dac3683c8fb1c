// Runs a real model's Steps for their time, and answers from an AcceptanceSource. It measures how
// fast a strategy is on this machine at an acceptance rate, a context and a batch for which there
// is no pair of models, or which would take too long (a paper's figures at 32,000 tokens). The
// model's own answers are computed and dropped.
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
  // `acceptance` must outlive the runner. With `skips_prompts`, Steps of more than kPromptRows rows
  // a sequence are not run; the KV cache then holds arbitrary values, which take as long to read.
  // If all requests are to begin decoding at the same time, one Step must have room for all
  // prompts.
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
  std::vector<uint64_t> wanted_;  // histories of the Step's rows that want logits
};

}  // namespace forerun
