#include "strategies/draft_kv.h"

#include <algorithm>
#include <utility>

namespace forerun {

void DraftKv::add_missing_rows(std::span<const TokenId> verified, int32_t end, WorkItem& item) {
  for (; prefix_ < end; ++prefix_) {
    item.rows.push_back(
        {.token = token(verified[static_cast<size_t>(prefix_)]), .position = prefix_});
  }
}

void DraftKv::move_root(TokenTree& tree, std::span<const NodeId> path, NodeId next, TokenId token,
                        int32_t position, std::vector<NodeId>& kept) {
  tree.nodes_with_kv(Role::kDraft, kept);
  const size_t had_kv = kept.size();
  std::vector<NodeId> committed;
  if (is_head_) {
    next = kNoNode;
    path = path.first(std::min<size_t>(path.size(), 1));
  }
  // KV is closed under parents, so the nodes of the path that have KV come first.
  for (NodeId node : path) {
    if (tree.expansion(Role::kDraft, node) != Expansion::kUnexpanded) committed.push_back(node);
  }
  prefix_ += static_cast<int32_t>(committed.size());
  if (next == kNoNode) {
    tree.reset(token, position, tree.max_position());
    kept.clear();
  } else {
    tree.reroot(next, scratch_);
    tree.nodes_with_kv(Role::kDraft, kept);
  }
  const bool drops = had_kv > committed.size() + kept.size();
  if (!committed.empty()) {
    edits_.push_back({.kind = Edit::Kind::kCommit, .nodes = std::move(committed)});
  }
  if (drops) edits_.push_back({.kind = Edit::Kind::kKeep, .nodes = kept});
}

void DraftKv::truncate(TokenTree& tree, int32_t size) {
  tree.nodes_with_kv(Role::kDraft, scratch_);
  const size_t had_kv = scratch_.size();
  tree.truncate(size);
  tree.nodes_with_kv(Role::kDraft, scratch_);
  if (scratch_.size() < had_kv) edits_.push_back({.kind = Edit::Kind::kKeep, .nodes = scratch_});
}

void DraftKv::take_edits(WorkItem& item) { item.edits = std::exchange(edits_, {}); }

}  // namespace forerun
