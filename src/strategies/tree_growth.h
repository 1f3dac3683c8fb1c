// How serial_tree's tree gets its shape: which leaves the draft runs next, and which nodes are
// verified. Pure; one object a request, one thread at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "forerun/guess_origin.h"
#include "step/cost_table.h"
#include "step/types.h"
#include "tree/token_tree.h"

namespace forerun {

// A node to be run by the draft, and how many guesses are wanted below it.
struct LeafRequest {
  NodeId node = kNoNode;
  int32_t count = 0;
};

// A guess on its way into the tree.
struct Guess {
  using Origin = GuessOrigin;
  TokenId token = 0;
  float logprob = 0.0f;  // natural; as its origin says, later as the growth weighs it
  Origin origin = Origin::kModel;
  uint32_t note = 0;  // becomes the node's note
};

struct RoundStart {
  int32_t draft_rows_behind = 0;  // verified tokens before the root that the draft has not run
  bool root_expanded = false;     // the draft has run the root already
  int32_t tokens_left = 1;        // that the request may still bring, 1 or more
};

// What guesses are thought to be worth.
class GuessJudge {
 public:
  virtual ~GuessJudge() = default;
  // Turns the guesses for the token after `parent`, best first, into what the tree should weigh.
  // May change logprobs, set notes and drop guesses.
  virtual void weigh(const TokenTree& tree, NodeId parent, std::vector<Guess>& guesses) = 0;
};

class TreeGrowth : public GuessJudge {
 public:
  // `tree` has been rerooted at the last verified token.
  virtual void begin_round(const TokenTree& tree, const RoundStart& start) = 0;
  // After begin_round(): whether this round is to be plain decoding whatever could be guessed, so
  // that nothing need be looked at. Then neither next_leaves() nor choose() is called.
  virtual bool rests() const { return false; }
  // Replaces `out` by what the draft runs next; empty: enough, verify. Every node is unrun, and its
  // parent has been run or comes earlier in `out`.
  virtual void next_leaves(TokenTree& tree, std::vector<LeafRequest>& out) = 0;
  // After next_leaves() gave some: what they are expected to bring (WorkItem::gain).
  virtual float gain() const { return std::numeric_limits<float>::infinity(); }
  // They have not been run (WorkResult::left_out); what is verified next is chosen without them.
  virtual void on_left_out() {}
  // Replaces `out` by the nodes to verify, in order of rows, closed under parents, the root first.
  virtual void choose(TokenTree& tree, std::vector<NodeId>& out) = 0;
  // Whether a node's weight is the logarithm of its chance to come out, as far as anyone knows, so
  // that rows may be left out by it (WorkRow::chance).
  virtual bool weights_are_chances() const { return false; }
  // The target ran `nodes` of those that were chosen, took `path` (the root first) and drew
  // sampled[i] after path[i]; the tree is still the one that was verified.
  virtual void on_verified(const TokenTree& tree, size_t nodes, std::span<const NodeId> path,
                           std::span<const TokenId> sampled) = 0;
  virtual void on_costs(const CostTable& costs) = 0;
  // How many nodes a model-free source may hang below what the draft has run, for one verification.
  virtual int32_t source_nodes() const = 0;
  // Nodes whose weight says that they are less likely than this are not verified.
  virtual float least_chance() const { return 0.0f; }
};

}  // namespace forerun
