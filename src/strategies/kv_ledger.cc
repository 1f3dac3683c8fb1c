#include "strategies/kv_ledger.h"

#include <algorithm>
#include <utility>

namespace forerun {
namespace {

constexpr int32_t kDropped = -1;
constexpr int32_t kKept = 0;  // the row's new index is set later

}  // namespace

void KvLedger::note(const WorkItem& item) {
  RoleKv& kv = of(item.role);
  for (const Edit& edit : item.edits) {
    edit.kind == Edit::Kind::kCommit ? commit(kv, edit.nodes) : keep(kv, edit.nodes);
  }
  kv.prefix_before = kv.prefix;
  kv.tree_before = kv.tree.size();
  for (const WorkRow& row : item.rows) {
    if (row.node == kNoNode) {
      ++kv.prefix;
    } else {
      add_row(kv, row, item.role == Role::kTarget && item.view.kind != nullptr);
    }
  }
}

void KvLedger::take_back_rows(Role role) {
  RoleKv& kv = of(role);
  kv.prefix = kv.prefix_before;
  kv.tree.resize(kv.tree_before);
}

void KvLedger::clear() {
  for (RoleKv& kv : kv_) {
    kv.prefix = 0;
    kv.tree.clear();
  }
  next_node_ = 0;
}

void KvLedger::add_row(RoleKv& kv, const WorkRow& row, bool sparse) {
  TreeRow added{.node = row.node, .token = row.token, .sparse = sparse};
  const auto size = static_cast<int32_t>(kv.tree.size());
  // The parent is usually that of the previous row, or a row soon after it.
  int32_t idx = size == 0 ? 0 : std::max(kv.tree.back().parent_idx, 0);
  for (int32_t tries = row.parent == kNoNode ? 0 : size; tries > 0; --tries, ++idx) {
    idx = idx < size ? idx : 0;
    if (kv.tree[static_cast<size_t>(idx)].node != row.parent) continue;
    added.parent_idx = idx;
    break;
  }
  kv.tree.push_back(added);
  next_node_ = std::max(next_node_, row.node + 1);
}

void KvLedger::commit(RoleKv& kv, std::span<const NodeId> path) {
  int32_t last_idx = -1;
  for (const NodeId node : path) {
    // Children come after their parents.
    auto at = static_cast<size_t>(last_idx + 1);
    while (at < kv.tree.size() && kv.tree[at].node != node) ++at;
    // The executor reports this error.
    if (at == kv.tree.size() || kv.tree[at].parent_idx != last_idx) return;
    last_idx = static_cast<int32_t>(at);
  }
  if (last_idx < 0) return;
  // Rows that descend from the path's last node stay.
  new_idx_.assign(kv.tree.size(), kDropped);
  for (size_t idx = static_cast<size_t>(last_idx) + 1; idx < kv.tree.size(); ++idx) {
    const int32_t parent_idx = kv.tree[idx].parent_idx;
    if (parent_idx == last_idx ||
        (parent_idx >= 0 && new_idx_[static_cast<size_t>(parent_idx)] != kDropped)) {
      new_idx_[idx] = kKept;
    }
  }
  compact(kv);
  kv.prefix += static_cast<int32_t>(path.size());
}

void KvLedger::keep(RoleKv& kv, std::span<const NodeId> nodes) {
  if (nodes.empty()) {
    kv.tree.clear();
    return;
  }
  new_idx_.assign(kv.tree.size(), kDropped);
  // Nodes are nearly in the order of their rows, so the search for each starts where the last one
  // was found.
  size_t at = 0;
  for (const NodeId node : nodes) {
    for (size_t tries = kv.tree.size(); tries > 0; --tries) {
      at = at < kv.tree.size() ? at : 0;
      const size_t idx = at++;
      if (kv.tree[idx].node != node) continue;
      new_idx_[idx] = kKept;
      break;
    }
  }
  compact(kv);
}

void KvLedger::compact(RoleKv& kv) {
  size_t size = 0;
  for (size_t idx = 0; idx < kv.tree.size(); ++idx) {
    if (new_idx_[idx] == kDropped) continue;
    TreeRow row = kv.tree[idx];
    if (row.parent_idx >= 0) row.parent_idx = new_idx_[static_cast<size_t>(row.parent_idx)];
    new_idx_[idx] = static_cast<int32_t>(size);
    kv.tree[size++] = row;
  }
  kv.tree.resize(size);
}

std::vector<Edit> KvLedger::settle(Role role, std::span<const TokenId> tokens) {
  RoleKv& kv = of(role);
  std::vector<Edit> edits;
  if (kv.tree.empty()) return edits;
  std::vector<NodeId> path;
  int32_t last_idx = -1;
  for (size_t idx = 0; idx < kv.tree.size(); ++idx) {
    const size_t position = static_cast<size_t>(kv.prefix) + path.size();
    if (position + 1 >= tokens.size()) break;
    const TreeRow& row = kv.tree[idx];
    if (row.parent_idx != last_idx || row.token != tokens[position] || row.sparse) continue;
    path.push_back(row.node);
    last_idx = static_cast<int32_t>(idx);
  }
  const bool drops = kv.tree.size() > path.size();
  kv.prefix += static_cast<int32_t>(path.size());
  kv.tree.clear();
  if (!path.empty()) edits.push_back({.kind = Edit::Kind::kCommit, .nodes = std::move(path)});
  if (drops) edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
  return edits;
}

}  // namespace forerun
