#include "exec/role/mask_waits.h"

#include <algorithm>
#include <utility>

namespace forerun {
namespace {

using State = TokenConstraint::State;

bool wants_mask(const WorkItem& item, const WorkRow& row) {
  return row.want != Want::kNothing || (item.verify_by_rejection && row.node != kNoNode);
}

}  // namespace

bool MaskWaits::is_late(const RoleSequence* sequence) {
  return sequence->spec.constraint->is_late(sequence->late);
}

bool MaskWaits::has_come() const { return !std::all_of(late_.begin(), late_.end(), is_late); }

void MaskWaits::take(std::vector<RoleSequence*>& ready) {
  const auto come = std::stable_partition(late_.begin(), late_.end(), is_late);
  ready.insert(ready.begin(), come, late_.end());
  late_.erase(come, late_.end());
}

void MaskWaits::find_states(RoleSequence& sequence, PendingItem& item) {
  const std::vector<WorkRow>& rows = item.item.rows;
  if (item.constrained.size() == rows.size()) return;
  const TokenConstraint& constraint = *sequence.spec.constraint;
  std::vector<RoleSequence::KnownState>& known = sequence.known_states;
  const uint64_t number = ++sequence.constrained_items;
  std::erase_if(known, [&](const RoleSequence::KnownState& each) {
    return each.item + 1 < number && (each.node == kNoNode || sequence.kv.find(each.node) < 0);
  });
  item.constrained.assign(rows.size(), nullptr);
  State prefix = sequence.constrained;  // the state at the prefix's end
  int32_t prefix_length = sequence.kv.prefix_length();
  const auto state_of = [&](NodeId node) -> State {
    if (node == kNoNode) return prefix;
    for (auto each = known.rbegin(); each != known.rend(); ++each) {
      if (each->node == node) return each->state;
    }
    std::vector<TokenId> path;  // from the node to the root
    for (int32_t at = sequence.kv.find(node); at >= 0;
         at = sequence.kv.tree_rows()[static_cast<size_t>(at)].parent_idx) {
      path.push_back(sequence.kv.tree_rows()[static_cast<size_t>(at)].token);
    }
    State state = sequence.constrained;
    for (auto token = path.rbegin(); token != path.rend() && state != nullptr; ++token) {
      state = constraint.after(state, *token);
    }
    return state;
  };
  for (size_t idx = 0; idx < rows.size(); ++idx) {
    const WorkRow& row = rows[idx];
    const bool is_prefix = row.node == kNoNode;
    prefix_length += is_prefix ? 1 : 0;
    if (is_prefix && row.position < sequence.spec.prompt_tokens) {
      if (row.want != Want::kNothing) item.constrained[idx] = prefix;
      continue;
    }
    const State above = is_prefix ? prefix : state_of(row.parent);
    if (above != nullptr) item.constrained[idx] = constraint.after(above, row.token);
    if (is_prefix) {
      prefix = item.constrained[idx];
    } else {
      known.push_back({row.node, number, item.constrained[idx]});
    }
  }
  // Until the prompt is complete, nodes may still become part of it; their states would not be
  // those of output.
  if (prefix_length < sequence.spec.prompt_tokens) known.clear();
  if (prefix != sequence.constrained) known.push_back({kNoNode, number, prefix});
}

MaskState MaskWaits::prepare(const RoleSequence& sequence, const PendingItem& item,
                             size_t row_idx) {
  const State& state = item.constrained[row_idx];
  if (state == nullptr) return MaskState::kReady;
  return sequence.spec.constraint->prepare(state, steps_);
}

void MaskWaits::wait(RoleSequence& sequence) {
  sequence.is_queued = true;
  late_.push_back(&sequence);
}

bool MaskWaits::leave_out_late_guesses(RoleSequence& sequence, PendingItem& item) {
  std::vector<WorkRow>& rows = item.item.rows;
  const auto is_guess = [](const WorkRow& row) { return row.chance < 1.0f; };
  if (item.constrained.empty() || item.rows_done > 0) return true;
  if (std::none_of(rows.begin(), rows.end(), is_guess)) return true;
  bool late = false;
  for (size_t idx = 0; idx < rows.size(); ++idx) {
    if (is_guess(rows[idx]) || !wants_mask(item.item, rows[idx])) continue;
    if (prepare(sequence, item, idx) != MaskState::kLate) continue;
    late = true;
    sequence.late = item.constrained[idx];
  }
  if (late) {
    wait(sequence);
    return false;
  }
  // The masks of guesses that are left out are not needed, except the first one's, which the next
  // item may want.
  bool left_out_one = false;
  std::vector<NodeId> left_out;
  size_t kept = 0;
  for (size_t idx = 0; idx < rows.size(); ++idx) {
    const auto is_left_out = [&](NodeId node) {
      return std::find(left_out.begin(), left_out.end(), node) != left_out.end();
    };
    bool out = is_guess(rows[idx]) && is_left_out(rows[idx].parent);
    if (!out && is_guess(rows[idx])) out = prepare(sequence, item, idx) != MaskState::kReady;
    if (out) {
      left_out.push_back(rows[idx].node);
      if (std::exchange(left_out_one, true)) {
        std::erase_if(sequence.known_states, [&](const RoleSequence::KnownState& known) {
          return known.item == sequence.constrained_items && known.node == rows[idx].node;
        });
      }
      continue;
    }
    if (kept != idx) {
      rows[kept] = rows[idx];
      item.constrained[kept] = std::move(item.constrained[idx]);
    }
    ++kept;
  }
  rows.resize(kept);
  item.constrained.resize(kept);
  return true;
}

bool MaskWaits::has_masks(RoleSequence& sequence, PendingItem& item, int32_t count) {
  if (item.constrained.empty()) return true;
  bool late = false;
  for (size_t idx = item.rows_done; idx < item.rows_done + static_cast<size_t>(count); ++idx) {
    if (!wants_mask(item.item, item.item.rows[idx])) continue;
    if (prepare(sequence, item, idx) != MaskState::kLate) continue;
    late = true;
    sequence.late = item.constrained[idx];
  }
  if (late) wait(sequence);
  return !late;
}

}  // namespace forerun
