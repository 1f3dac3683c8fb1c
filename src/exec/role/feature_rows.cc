#include "exec/role/feature_rows.h"

#include <algorithm>
#include <span>
#include <vector>

namespace forerun {
namespace {

// The number of rows that keep their hidden states, for a head that must run its last rows again.
constexpr int32_t kRowsThatStay = 8;

// Returns the verified token at `position`, which is in the sequence's KV or among the item's
// prefix rows.
TokenId text_at(const RoleSequence& sequence, const PendingItem& item, int32_t position) {
  const std::vector<WorkRow>& rows = item.item.rows;
  const int32_t first = rows.front().position;
  if (position >= first) return rows[static_cast<size_t>(position - first)].token;
  return sequence.kv.prefix()[static_cast<size_t>(position - sequence.kv.first_position())];
}

}  // namespace

int32_t FeatureRows::find_tap(const RoleSequence& target, const RoleSequence& sequence,
                              const PendingItem& item, int32_t position) const {
  const SequenceKv& kv = target.kv;
  if (position < kv.end_position()) return target.taps.of_prefix(position);
  // Verified rows of the target stay in its tree until its next item commits them.
  const std::span<const SequenceKv::TreeRow> tree = kv.tree_rows();
  int32_t found = -1;
  size_t row = 0;
  for (int32_t at = kv.end_position(); at <= position; ++at) {
    const TokenId token = text_at(sequence, item, at);
    while (row < tree.size() && (tree[row].parent_idx != found || tree[row].token != token)) ++row;
    if (row == tree.size()) return -1;
    found = static_cast<int32_t>(row++);
  }
  return target.taps.of_node(tree[static_cast<size_t>(found)].node);
}

bool FeatureRows::begin(RoleSequence& sequence, PendingItem& item) const {
  const std::vector<WorkRow>& rows = item.item.rows;
  const RoleSequence* const target = target_.find(sequence.id);
  const auto root = std::find_if(rows.begin(), rows.end(), [](const WorkRow& row) {
    return row.node != kNoNode && row.parent == kNoNode;
  });
  const bool can_start =
      target != nullptr &&
      (root == rows.end() ||
       (root->position > 0 && find_tap(*target, sequence, item, root->position - 1) >= 0));
  if (!can_start) {
    // A later piece of the item runs the rows of earlier pieces again.
    if (item.rows_done > 0) sequence.kv.restart_at(rows.front().position);
    item.result.left_out = true;
    return false;
  }
  const WorkRow& first = rows.front();
  if (item.rows_done == 0 && first.node == kNoNode && first.position == 0) {
    sequence.kv.skip_first(first.token);
    sequence.count_token(first.token, 0);
    item.rows_done = 1;
  }
  return true;
}

bool FeatureRows::pass_over_missing(RoleSequence& sequence, PendingItem& item) const {
  const std::vector<WorkRow>& rows = item.item.rows;
  const RoleSequence* const target = target_.find(sequence.id);
  size_t next = item.rows_done;
  for (size_t row = next; row < rows.size() && rows[row].node == kNoNode; ++row) {
    if (find_tap(*target, sequence, item, rows[row].position - 1) < 0) next = row + 1;
  }
  if (next > item.rows_done) {
    for (; item.rows_done < next; ++item.rows_done) {
      sequence.count_token(rows[item.rows_done].token, rows[item.rows_done].position);
    }
    sequence.kv.restart_at(rows[next - 1].position + 1);
  }
  return item.rows_done < rows.size();
}

StepFeature FeatureRows::feature_of(const RoleSequence& sequence, const PendingItem& item,
                                    size_t row_idx) const {
  const WorkRow& row = item.item.rows[row_idx];
  const bool is_own = row.node != kNoNode && row.parent != kNoNode;
  const RoleSequence* const target = target_.find(sequence.id);
  if (target == nullptr) return {.is_own = is_own, .place = 0};
  const int32_t place = is_own ? sequence.taps.of_node(row.parent)
                               : find_tap(*target, sequence, item, row.position - 1);
  return {.is_own = is_own, .place = place};
}

void FeatureRows::forget_used(const RoleSequence& sequence) const {
  RoleSequence* const target = target_.find(sequence.id);
  if (target == nullptr) return;
  target->taps.forget_before(sequence.kv.end_position() - kRowsThatStay);
}

}  // namespace forerun
