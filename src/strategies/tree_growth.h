// The policy that shapes a draft tree: it chooses the leaves that the draft runs next, and the
// nodes that are verified. Pure; one object per request, one thread at a time.
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

// A node to be run by the draft, and the number of guesses requested below it.
struct LeafRequest {
  NodeId node = kNoNode;
  int32_t count = 0;
};

// A guess that is about to be added to the tree.
struct Guess {
  using Origin = GuessOrigin;
  TokenId token = 0;
  float logprob = 0.0f;  // natural; first as its origin gave it, later as the growth has weighed it
  Origin origin = Origin::kModel;
  uint32_t note = 0;  // becomes the node's note
};

struct RoundStart {
  int32_t draft_rows_behind = 0;  // verified tokens before the root that the draft has not run
  bool root_expanded = false;     // the draft has already run the root
  int32_t tokens_left = 1;        // number of tokens that the request may still emit, at least 1
};

// Computes the weights of guesses.
class GuessJudge {
 public:
  virtual ~GuessJudge() = default;
  // Turns the log-probabilities of the guesses for the token after `parent`, best first, into the
  // tree's weights. May change logprobs, set notes and drop guesses.
  virtual void weigh(const TokenTree& tree, NodeId parent, std::vector<Guess>& guesses) = 0;
};

class TreeGrowth : public GuessJudge {
 public:
  // Begins a round. `tree` has been rerooted at the last verified token.
  virtual void begin_round(const TokenTree& tree, const RoundStart& start) = 0;
  // After begin_round(): returns whether this round is plain decoding without a decision. Then
  // neither next_leaves() nor choose() is called.
  virtual bool rests() const { return false; }
  // Ends the rest with the present round, since the text has begun to repeat itself.
  virtual void wake() {}
  // Replaces on_verified() after a round that rested, which gave one token. Begins the next round
  // and returns true if that one rests, too; otherwise begin_round() must follow.
  virtual bool rest_on() { return false; }
  // Replaces `out` by the leaves that the draft runs next; empty: verify now. None of its nodes has
  // been run, and the parent of each has been run or comes earlier in `out`.
  virtual void next_leaves(TokenTree& tree, std::vector<LeafRequest>& out) = 0;
  // After next_leaves() gave some: returns their expected gain (WorkItem::gain).
  virtual float gain() const { return std::numeric_limits<float>::infinity(); }
  // Reports that the leaves have not been run (WorkResult::left_out); the nodes to verify are
  // chosen without them.
  virtual void on_left_out() {}
  // Replaces `out` by the nodes to verify, in order of rows, closed under parents, the root first.
  virtual void choose(TokenTree& tree, std::vector<NodeId>& out) = 0;
  // Returns whether a node's weight is the logarithm of its estimated acceptance probability, so
  // that the executor may drop rows by it (WorkRow::chance).
  virtual bool weights_are_chances() const { return false; }
  // Reports that the target ran `nodes` of the chosen nodes, accepted `path` (the root first) and
  // sampled sampled[i] after path[i]; the tree is still the one that was verified.
  virtual void on_verified(const TokenTree& tree, size_t nodes, std::span<const NodeId> path,
                           std::span<const TokenId> sampled) = 0;
  virtual void on_costs(const CostTable& costs) = 0;
  // Returns how many nodes a model-free source may add below the nodes that the draft has run, for
  // one verification.
  virtual int32_t source_nodes() const = 0;
  // Returns the probability, by weight, below which nodes are not verified.
  virtual float min_chance() const { return 0.0f; }
};

}  // namespace forerun
