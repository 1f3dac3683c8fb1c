// A runner that asks its model for the guesses after a history once, and afterwards answers from
// memory. Simulations that grow trees below the same texts many times then take a small part of
// the model's time.
//
// The memory outlives the runner: it holds for one model, and for one noise at each history.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "exec/forwarding_runner.h"
#include "simulation/slot_histories.h"

namespace forerun::bench {

// The best guesses by history (simulation/acceptance_model.h), as many as were asked for.
struct Guesses {
  int32_t count = 0;  // that were asked for
  std::vector<Candidate> top;
};
using RememberedGuesses = std::unordered_map<uint64_t, Guesses>;

class RememberingRunner : public ForwardingRunner<StepRunner> {
 public:
  // `memory` is added to, and must outlive the runner. Its Steps may only ask for guesses
  // (Want::kTopK), and every row must see its whole text.
  RememberingRunner(std::unique_ptr<StepRunner> model, RememberedGuesses* memory);

  // The model runs the rows whose guesses are not known, and those that they see whose KV is
  // missing, since they were answered from memory.
  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;

 private:
  struct Slot {
    TokenId token = 0;
    bool has_kv = false;
  };
  struct Asked {
    StepRow row;
    RowTask* task = nullptr;  // null: only its KV is wanted
  };

  Slot& slot_at(const StepSequence& sequence, int32_t slot);
  // Appends `row` to `asked`, and before it the rows that it sees and that lack KV.
  void ask(const Step& step, const StepRow& row, RowTask* task, std::vector<Asked>& asked);
  Status run_model(const Step& step, std::span<const Asked> asked);

  RememberedGuesses& memory_;
  SlotHistories histories_;
  std::vector<Slot> slots_;  // by physical slot
};

}  // namespace forerun::bench
