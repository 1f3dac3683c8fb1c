// Runs the Steps of a real model, for their time only, and answers from an AcceptanceSource. It
// measures a strategy's speed on this machine at an acceptance rate, a context length and a batch
// size for which no pair of models exists, or which would take too long (a paper's figures at
// 32,000 tokens). The model's own answers are computed and dropped.
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
  // `acceptance` must outlive the runner. With `skips_prompts`, Steps with more than kPromptRows
  // rows per sequence are not run; the KV cache then holds arbitrary values, which take equally
  // long to read. If all requests are to start decoding at the same time, one Step must have room
  // for all prompts.
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
