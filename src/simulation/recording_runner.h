// A draft that is listened to: keeps the guesses of every row that its Steps run, by history, so
// that a recorded text gets the branches that strategies grow beside it.
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

  // Adds to `text` the branches heard since the last call, at most `count` guesses each. Called
  // while no Step runs. What hangs from no output token of the text is dropped.
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
