// The tree of guessed tokens below the last verified token (SwiftSpec §3.1-3.2, SpecPipe §3.2).
//
// Row 0 is the root, the last verified token; every other node guesses the token after its
// parent's. A node's row is its index in insertion order, so parents come before children and rows
// are 0, 1, 2, ... without gaps. A node's id is stable and grows with its row; rerooting the tree
// lowers the rows, not the ids. The tree knows tokens and weights, not KV: for each role it only
// remembers whether a node has been run.
//
// Logs are natural. A node's weight is the sum of the log-probabilities on the path to it, without
// the root's; the root weighs 0. Log-probabilities above 0 count as 0 and NaN as minus infinity, so
// a child never outweighs its parent. Ties go to the earlier row.
//
// No function allocates while the tree stays within its initial capacity and the caller reuses its
// output vectors; a larger tree grows its arrays as std::vector does. Only one thread may use a
// tree at a time. A NodeId argument must be a node of this tree unless the function says otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/guess_origin.h"
#include "step/types.h"

namespace forerun {

// The progress of a role on a node.
enum class Expansion : uint8_t {
  kUnexpanded,  // not run: no KV, no children from this role
  kInFlight,    // sent, no result yet
  kExpanded,    // run: its KV lies in the role's cache
};

class TokenTree {
 public:
  explicit TokenTree(int32_t capacity_nodes = 1024);

  // Drops every node and adds a root at `position` of the sequence. The tree never adds a node
  // beyond `max_position`. Ids continue to grow. Returns the root.
  NodeId reset(TokenId token, int32_t position, int32_t max_position);

  // Makes the ids of all nodes that are added later at least `first`.
  void skip_ids_below(NodeId first) { next_id_ = next_id_ < first ? first : next_id_; }

  int32_t size() const { return static_cast<int32_t>(ids_.size()); }
  NodeId root() const { return ids_[0]; }
  bool contains(NodeId node) const { return find_row(node) >= 0; }
  int32_t row(NodeId node) const { return find_row(node); }  // -1 if it is not in the tree
  NodeId node_at(int32_t row) const { return ids_[at(row)]; }

  TokenId token(NodeId node) const { return tokens_[slot(node)]; }
  // Returns the parent, or kNoNode for the root.
  NodeId parent(NodeId node) const;
  int32_t position(NodeId node) const { return positions_[slot(node)]; }
  int32_t depth(NodeId node) const { return position(node) - positions_[0]; }
  float logprob(NodeId node) const { return logprobs_[slot(node)]; }
  float weight(NodeId node) const { return weights_[slot(node)]; }
  Expansion expansion(Role role, NodeId node) const {
    return expansions_[static_cast<size_t>(role)][slot(node)];
  }
  // Returns a number that the policy may use as it likes; it is 0 at first.
  uint32_t note(NodeId node) const { return notes_[slot(node)]; }
  void set_note(NodeId node, uint32_t note) { notes_[slot(node)] = note; }
  // Returns the source that guessed the node; the draft model at first.
  GuessOrigin origin(NodeId node) const { return origins_[slot(node)]; }
  void set_origin(NodeId node, GuessOrigin origin) { origins_[slot(node)] = origin; }
  int32_t max_position() const { return max_position_; }

  // The children in insertion order are first_child, then next_sibling until kNoNode.
  NodeId first_child(NodeId node) const { return id_or_none(first_children_[slot(node)]); }
  NodeId next_sibling(NodeId node) const { return id_or_none(next_siblings_[slot(node)]); }
  // Returns the first child that carries `token`, or kNoNode.
  NodeId child(NodeId node, TokenId token) const;
  // Follows tokens down from the root (the first one is a child of the root). Returns the last node
  // reached, kNoNode if the tokens leave the tree, or the root if there are no tokens.
  NodeId walk(std::span<const TokenId> tokens) const;
  // Replaces `out` by the tokens on the path from the root to `node`, without the root's token.
  void path_tokens(NodeId node, std::vector<TokenId>& out) const;

  // Appends children, duplicates included, and returns the first one's id; the ids are consecutive.
  // Adds nothing and returns kNoNode if there are no candidates or they lie beyond max_position.
  NodeId add_children(NodeId parent, std::span<const Candidate> candidates);
  void set_expansion(Role role, NodeId node, Expansion state);

  // Replaces `out` by at most `width` nodes of highest weight, best first. Eligible are nodes that
  // the draft has not run, that may have children, and whose parent the draft has run or is
  // running. O(width log s).
  void best_leaves(int32_t width, std::vector<NodeId>& out);
  // Replaces `out` by the root and the nodes of highest weight, at most `count` in all, in row
  // order. The parent of every node in `out` is in `out` too.
  void best_subtree(int32_t count, std::vector<NodeId>& out);
  // Replaces `out` by at most `count` nodes of highest weight that a role has not run, in row
  // order. If the role has not run a node's parent either, the parent is in `out` too.
  void best_unrun(Role role, int32_t count, std::vector<NodeId>& out);

  // Makes `node` the root and drops every node that does not descend from it. Replaces `kept` by
  // the remaining nodes in row order, the new root first.
  void reroot(NodeId node, std::vector<NodeId>& kept);
  // Drops all rows from `size` on.
  void truncate(int32_t size);
  // Replaces `out` by the nodes that a role has run or is running, in row order.
  void nodes_with_kv(Role role, std::vector<NodeId>& out) const;

  // Adds one level of a fixed-width tree (SpecPipe §3.2). `candidates` has `per_node` entries for
  // each of `parents` (the nodes of the level above, in row order); entries with token < 0 are
  // unused. Appends the `width` candidates of highest weight, grouped by parent, which keeps the
  // order breadth-first, and replaces `level` by the new nodes.
  void append_level(int32_t width, int32_t per_node, std::span<const NodeId> parents,
                    std::span<const Candidate> candidates, std::vector<NodeId>& level);
  // Works as reroot() does and also stores in `kept_rows` the rows that the kept nodes had before,
  // by which a pipeline stage compacts its own rows.
  void prune_to_subtree(NodeId node, std::vector<int32_t>& kept_rows);

  // Writes the path from the root to each of `nodes`, in order of positions: path i is
  // out[begins[i]] to out[begins[i + 1]]; begins has nodes.size() + 1 entries.
  void ancestors(std::span<const NodeId> nodes, std::vector<int32_t>& begins,
                 std::vector<NodeId>& out) const;
  // Writes the same paths as bits, [nodes][mask_words()]: bit r is set if row r of the tree is the
  // node itself or one of its ancestors.
  void mask(std::span<const NodeId> nodes, std::vector<uint64_t>& bits) const;
  int32_t mask_words() const { return (size() + 63) / 64; }

 private:
  static constexpr int32_t kNone = -1;

  static size_t at(int32_t row) { return static_cast<size_t>(row); }
  size_t slot(NodeId node) const { return at(find_row(node)); }
  int32_t find_row(NodeId node) const {
    const NodeId offset = node - ids_[0];
    return offset < rows_by_id_.size() ? rows_by_id_[offset] : kNone;
  }
  NodeId id_or_none(int32_t row) const { return row == kNone ? kNoNode : ids_[at(row)]; }

  // Returns the key that orders rows by weight: the heaviest row has the lowest key, and among
  // equal weights the lowest row does.
  uint64_t heaviness_key(int32_t row) const;
  static int32_t row_of_key(uint64_t key) { return static_cast<int32_t>(key & 0xffffffffu); }
  int32_t append(int32_t parent_row, const Candidate& candidate);
  void link(int32_t row);
  bool is_open_leaf(int32_t row) const;
  void push_leaf(int32_t row);  // pushes it only if it is an open leaf
  void add_to_leaves(int32_t row);
  // Replaces `out` by the `count` heaviest nodes among the rows in keys_, in row order.
  void take_heaviest(int32_t count, std::vector<NodeId>& out);
  // Keeps row `root` and its descendants, and writes their old rows to kept_rows_.
  void compact(int32_t root);
  void resize_arrays(size_t size);
  void rebuild_links_and_leaves();
  void rebuild_rows_by_id();

  // These arrays have one entry per row. Parents, children and siblings are rows.
  std::vector<NodeId> ids_;
  // Entry i is the row of the node with id root id + i, or kNone if that node is gone.
  std::vector<int32_t> rows_by_id_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> parents_;
  std::vector<int32_t> positions_;
  std::vector<float> logprobs_;
  std::vector<float> weights_;
  std::vector<uint32_t> notes_;
  std::vector<GuessOrigin> origins_;
  std::vector<int32_t> first_children_, last_children_, next_siblings_;
  std::array<std::vector<Expansion>, kNumRoles> expansions_;

  // A heap of keys. It may hold rows that are no longer open leaves; popping drops them.
  std::vector<uint64_t> leaves_;
  std::vector<uint64_t> keys_;  // scratch
  std::vector<int32_t> scratch_, new_rows_, kept_rows_;
  NodeId next_id_ = 0;
  int32_t max_position_ = 0;
};

}  // namespace forerun
