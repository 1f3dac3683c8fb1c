// Tracks which part of a request's text is in each role's KV once all submitted items have run,
// derived from the items alone. A strategy that replaces another continues from there: verified
// tokens with KV are never run again.
//
// Pure; one object per sequence. A plain Step costs some nanoseconds, a tree as much as copying it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "step/work.h"

namespace forerun {

class KvLedger {
 public:
  // Notes the item that is submitted next.
  void note(const WorkItem& item);
  // Takes back the rows of the role's last item, which was left out: only its edits were applied
  // (WorkResult::left_out).
  void take_back_rows(Role role);
  // Forgets all KV, since the sequence was closed.
  void clear();

  // Returns the edits after which the role's KV has no tree, and a prefix of the verified text
  // `tokens` as far as the role has run it, without the last token, with which the next strategy
  // begins. Notes these edits as submitted.
  std::vector<Edit> settle(Role role, std::span<const TokenId> tokens);

  // Returns the number of tokens in the role's KV prefix.
  int32_t prefix(Role role) const { return of(role).prefix; }
  // Returns an id above those of all nodes so far.
  NodeId next_node() const { return next_node_; }

 private:
  struct TreeRow {
    NodeId node = kNoNode;
    int32_t parent_idx = -1;  // index in `tree`; -1: it continues the prefix
    TokenId token = 0;
    // The target ran it through a view, so it never becomes part of the prefix.
    bool sparse = false;
  };
  struct RoleKv {
    int32_t prefix = 0;
    std::vector<TreeRow> tree;  // parents before children
    // State before the last item's rows.
    int32_t prefix_before = 0;
    size_t tree_before = 0;
  };

  RoleKv& of(Role role) { return kv_[static_cast<size_t>(role)]; }
  const RoleKv& of(Role role) const { return kv_[static_cast<size_t>(role)]; }
  void add_row(RoleKv& kv, const WorkRow& row, bool sparse);
  void commit(RoleKv& kv, std::span<const NodeId> path);
  void keep(RoleKv& kv, std::span<const NodeId> nodes);
  // Drops the rows whose entry in new_idx_ is -1.
  void compact(RoleKv& kv);

  std::array<RoleKv, kNumRoles> kv_;
  NodeId next_node_ = 0;
  std::vector<int32_t> new_idx_;  // reused memory
};

}  // namespace forerun
