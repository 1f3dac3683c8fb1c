// Measurements of a role's Step times on scratch sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/role/role_sequence.h"
#include "exec/role/step_under_way.h"
#include "exec/step_record.h"
#include "exec/step_runner.h"
#include "forerun/status.h"
#include "kv/block_pool.h"
#include "step/types.h"

namespace forerun {

class StepMeasurer {
 public:
  // In a Step with more rows than this, only the first rows of each sequence want something.
  static constexpr int32_t kMaxWants = 128;

  // `runner` and `pool` must outlive the object.
  StepMeasurer(Role role, StepRunner* runner, BlockPool* pool)
      : role_(role), runner_(runner), pool_(pool) {}

  // Runs one Step of `sequences` sequences, each with `rows` tree rows behind a prefix of
  // `context_tokens` with arbitrary KV, and returns its time without the choice of rows. Target
  // rows are sampled; draft rows give 16 candidates. No Step may be in flight; the row budget does
  // not apply. `step` lends its memory and is empty afterwards. Returns kResourceExhausted if the
  // KV is too small.
  Result<StepRecord> measure(int32_t rows, int32_t context_tokens, int32_t sequences,
                             StepUnderWay& step);

 private:
  struct Scratch {
    std::unique_ptr<RoleSequence> sequence;
    std::unique_ptr<PendingItem> item;
  };
  Result<Scratch> make_scratch(SequenceId id, int32_t rows, int32_t context_tokens, int32_t wants);
  // Adds all rows of the scratch sequences to the Step.
  Status compose(std::span<const Scratch> scratch, StepUnderWay& step) const;
  // Writes the slots of the sequence's context, as a prompt would do.
  Status write_context(const RoleSequence& sequence, int32_t context_tokens);
  Status run(StepUnderWay& step);
  // Returns the context of error messages.
  std::string context() const {
    return std::string(role_name(role_)) + ", while its Steps are measured";
  }

  const Role role_;
  StepRunner* const runner_;
  BlockPool* const pool_;
  std::vector<bool> written_blocks_;  // by block of the pool
};

}  // namespace forerun
