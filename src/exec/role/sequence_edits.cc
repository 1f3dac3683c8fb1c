#include "exec/role/sequence_edits.h"

#include <cstddef>
#include <string>

#include "base/status_macros.h"
#include "exec/guarded.h"
#include "step/step.h"

namespace forerun {

Status SequenceEdits::commit(RoleSequence& sequence, const std::vector<NodeId>& nodes) {
  for (const NodeId node : nodes) {
    const int32_t tree_idx = sequence.kv.find(node);
    if (tree_idx < 0) break;  // SequenceKv::commit() reports the error
    const SequenceKv::TreeRow& row = sequence.kv.tree_rows()[static_cast<size_t>(tree_idx)];
    if (row.sparse && role_ == Role::kTarget) {
      return Status(StatusCode::kInternal, "commit: node " + std::to_string(node) +
                                               " was run through a view and not verified");
    }
    sequence.count_token(row.token, row.position);
    // A head's own hidden states serve only its guesses.
    if (sequence.taps.keeps() && role_ == Role::kTarget) sequence.taps.commit(node, row.position);
  }
  return sequence.kv.commit(nodes);
}

Status SequenceEdits::apply(RoleSequence& sequence, const std::vector<Edit>& edits) {
  for (const Edit& edit : edits) {
    FORERUN_RETURN_IF_ERROR(edit.kind == Edit::Kind::kKeep ? sequence.kv.keep(edit.nodes)
                                                           : commit(sequence, edit.nodes));
  }
  if (!edits.empty() && sequence.taps.keeps()) {
    sequence.taps.keep_nodes([&](NodeId node) { return sequence.kv.find(node) >= 0; });
  }
  sequence.kv.take_moves(moves_);
  if (!moves_.empty()) {
    const StepSequence view{sequence.kv.block_table().data()};
    FORERUN_RETURN_IF_ERROR(guarded([&] { return runner_->move_kv(view, moves_); }));
  }
  // Other sequences may take blocks once their KV has been written.
  if (sequence.steps_under_way == 0) sequence.kv.publish();
  sequence.kv.release_unused();
  return {};
}

}  // namespace forerun
