// A runner of the draft that records the guesses of every row of its Steps, by history. They become
// the branches that strategies grow beside a recorded text.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "exec/forwarding_runner.h"
#include "simulation/recorded_acceptance.h"
#include "simulation/slot_histories.h"

namespace forerun {

class RecordingRunner : public ForwardingRunner<StepRunner> {
 public:
  explicit RecordingRunner(std::unique_ptr<StepRunner> runner);

  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;

  // Adds to `text` the branches recorded since the last call, with at most `count` guesses each.
  // Call it while no Step runs. Branches that do not start at an output token of the text are
  // dropped.
  void take_branches(int32_t count, RecordedText& text);

 private:
  struct Heard {
    uint64_t before = 0;
    uint64_t history = 0;
    TokenId token = 0;
    std::vector<Candidate> guesses;
  };

  SlotHistories histories_;
  std::vector<Heard> heard_;  // parents before children
  std::unordered_set<uint64_t> known_;
};

}  // namespace forerun
