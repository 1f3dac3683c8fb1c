#include "exec/role/dropped_rows.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <unordered_map>

namespace forerun {
namespace {

// The pending edits and the nodes that they leave in the tree: nodes with KV, and nodes of waiting
// rows.
class EditsToCome {
 public:
  explicit EditsToCome(const SequenceKv& kv) : kv_(kv) {}

  void add_row(const WorkRow& row) {
    if (row.node != kNoNode) parents_.emplace(row.node, row.parent);
  }
  void add(const Edit& edit) {
    Named& named = edits_.emplace_back(Named{edit.kind, kNoNode, edit.nodes});
    if (!edit.nodes.empty()) named.last = edit.nodes.back();
    std::sort(named.nodes.begin(), named.nodes.end());
  }
  size_t count() const { return edits_.size(); }

  // Returns whether the node is still in the tree, or part of the prefix, after the edits from
  // `first` on.
  bool leave(NodeId node, size_t first) const {
    for (size_t idx = first; idx < edits_.size(); ++idx) {
      const Named& edit = edits_[idx];
      const bool named = std::binary_search(edit.nodes.begin(), edit.nodes.end(), node);
      if (edit.kind == Edit::Kind::kKeep) {
        if (!named) return false;
      } else if (named) {
        return true;  // it becomes prefix
      } else if (!edit.nodes.empty() && !is_below(node, edit.last)) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Named {
    Edit::Kind kind;
    NodeId last;                // the last node of a commit's path
    std::vector<NodeId> nodes;  // sorted
  };
  bool is_below(NodeId node, NodeId above) const {
    while (node != kNoNode && node != above) node = parent_of(node);
    return node == above;
  }
  NodeId parent_of(NodeId node) const {
    const auto waiting = parents_.find(node);
    if (waiting != parents_.end()) return waiting->second;
    const int32_t tree_idx = kv_.find(node);
    if (tree_idx < 0) return kNoNode;
    const int32_t parent_idx = kv_.tree_rows()[static_cast<size_t>(tree_idx)].parent_idx;
    return parent_idx < 0 ? kNoNode : kv_.tree_rows()[static_cast<size_t>(parent_idx)].node;
  }

  const SequenceKv& kv_;
  std::vector<Named> edits_;
  std::unordered_map<NodeId, NodeId> parents_;  // parents of waiting rows
};

bool is_dead(const PendingItem& item, size_t row) { return !item.dead.empty() && item.dead[row]; }

void mark_dead(PendingItem& item, size_t row) {
  item.dead.resize(item.item.rows.size());
  item.dead[row] = true;
}

}  // namespace

void mark_dropped_rows(const RoleSequence& sequence, const StepsUnderWay& steps,
                       std::vector<IssuedRow>& issued) {
  EditsToCome edits(sequence.kv);
  std::vector<size_t> edits_before;  // number of edits up to and including its own, by waiting item
  for (const std::unique_ptr<PendingItem>& waiting : sequence.queue.waiting()) {
    if (!waiting->edits_done) {
      for (const Edit& edit : waiting->item.edits) edits.add(edit);
    }
    edits_before.push_back(edits.count());
    for (size_t row = waiting->rows_done; row < waiting->item.rows.size(); ++row) {
      edits.add_row(waiting->item.rows[row]);
    }
  }
  for (const std::unique_ptr<StepUnderWay>& step : steps) {
    for (const StepUnderWay::Piece& piece : step->pieces) {
      if (piece.sequence != &sequence || !piece.item->item.tells_entry) continue;
      for (int32_t row = 0; row < piece.count; ++row) {
        const size_t item_row = piece.first_item_row + static_cast<size_t>(row);
        const NodeId node = piece.item->item.rows[item_row].node;
        if (is_dead(*piece.item, item_row)) continue;
        // A node that is no longer in the tree is part of the prefix, or was dropped already.
        if (node == kNoNode || sequence.kv.find(node) < 0 || edits.leave(node, 0)) continue;
        mark_dead(*piece.item, item_row);
        --step->live_rows;
        issued.push_back({step->number, piece.first_step_row + row});
      }
    }
  }
  const auto waiting = sequence.queue.waiting();
  for (size_t idx = 0; idx < waiting.size(); ++idx) {
    PendingItem& item = *waiting[idx];
    if (!item.item.tells_entry) continue;
    for (size_t row = item.rows_done; row < item.item.rows.size(); ++row) {
      const NodeId node = item.item.rows[row].node;
      if (node != kNoNode && !edits.leave(node, edits_before[idx])) mark_dead(item, row);
    }
  }
}

}  // namespace forerun
