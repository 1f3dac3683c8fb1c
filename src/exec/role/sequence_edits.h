// The edits of items, applied to their sequences' trees and KV.
#pragma once

#include <vector>

#include "exec/role/role_sequence.h"
#include "exec/step_runner.h"
#include "forerun/status.h"
#include "kv/sequence_kv.h"
#include "step/types.h"
#include "step/work.h"

namespace forerun {

class SequenceEdits {
 public:
  // `runner`, which moves the KV, must outlive the object.
  SequenceEdits(Role role, StepRunner* runner) : role_(role), runner_(runner) {}

  // Keeps and commits nodes, moves their KV to its slots, counts the tokens that become prefix,
  // offers full blocks to other sequences and frees unneeded blocks. Fails as SequenceKv::keep(),
  // commit() and StepRunner::move_kv() do; returns kInternal if an unverified node of the target
  // would become prefix.
  Status apply(RoleSequence& sequence, const std::vector<Edit>& edits);

 private:
  Status commit(RoleSequence& sequence, const std::vector<NodeId>& nodes);

  const Role role_;
  StepRunner* const runner_;
  std::vector<KvMove> moves_;  // scratch
};

}  // namespace forerun
