// A runner that asks its model for the guesses after a history once, and afterwards answers from
// memory. Simulations that grow trees below the same texts many times then take a small part of the
// model's time.
//
// The memory outlives the runner: it is valid for one model, and for one noise at each history.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "exec/forwarding_runner.h"
#include "simulation/slot_histories.h"

namespace forerun::bench {

// The best guesses for each history (simulation/acceptance_model.h), as many as were requested.
struct Guesses {
  int32_t count = 0;  // requested number of guesses
  std::vector<Candidate> top;
};
using RememberedGuesses = std::unordered_map<uint64_t, Guesses>;

class RememberingRunner : public ForwardingRunner<StepRunner> {
 public:
  // The runner adds to `memory`, which must outlive it. Its Steps may only request guesses
  // (Want::kTopK), and every row must attend to its whole text.
  RememberingRunner(std::unique_ptr<StepRunner> model, RememberedGuesses* memory);

  // The model runs the rows without known guesses, and the rows that these attend to if their KV is
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
    RowTask* task = nullptr;  // null: only its KV is needed
  };

  Slot& slot_at(const StepSequence& sequence, int32_t slot);
  // Appends `row` to `asked`, preceded by the rows that it attends to and that lack KV.
  void ask(const Step& step, const StepRow& row, RowTask* task, std::vector<Asked>& asked);
  Status run_model(const Step& step, std::span<const Asked> asked);

  RememberedGuesses& memory_;
  SlotHistories histories_;
  std::vector<Slot> slots_;  // indexed by physical slot
};

}  // namespace forerun::bench
