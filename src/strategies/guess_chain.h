// Cheap guesses below the end of a chain that a more expensive draft extends. A draft model, a
// source without a model, or both guess some tokens one after the other, and one Step of the
// expensive draft checks all of them (the lower level of TriForce's hierarchy, §4.2). Pure; one
// object per request.
//
// The tree belongs to the strategy and is a chain: the root, the tokens that the expensive draft
// has added below it, then the guesses. A round of the expensive draft:
//   begin(); grow() until it requests no more of the draft model; rows(); settle().
// The draft model's KV of the chain stays in tree rows until the chain is verified; KV of refused
// guesses is dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "strategies/acceptance.h"
#include "strategies/draft_kv.h"
#include "strategies/guess_list.h"
#include "strategies/strategy.h"
#include "tree/token_tree.h"

namespace forerun {

class GuessChain : private GuessJudge {
 public:
  struct Config {
    int32_t max_guesses = 0;  // guesses per check; 0: there is no source
    bool has_draft_model = false;
    int32_t target_vocab = 0;  // as in ModelFacts
    int32_t draft_vocab = 0;
    KvViewSpec view = {};  // the part of its KV that the draft model sees
  };
  // `source` null: only the draft model guesses. `shared` may be null.
  GuessChain(const Config& config, std::unique_ptr<DraftSource> source,
             std::shared_ptr<SharedAcceptance> shared);

  void start(const RequestView& request);
  // Takes the tokens that have been verified since the last call.
  void add_verified(std::span<const EmittedToken> tokens);
  void on_costs(const CostTable& costs);
  // Lets the source read the verified tokens that it does not know yet.
  void prepare();

  // Begins a round of guesses below `last`, in addition to those that settle() has left there.
  // `reads`: the source may read the tokens that it does not know yet; a source that has never read
  // any makes no guesses.
  void begin(const TokenTree& tree, NodeId last, bool reads);
  // Adds the source's guesses to the tree. Returns true if the draft model must first run `item`:
  // the caller fills in its sequence and tag, passes the result to on_guessed(), and calls grow()
  // again.
  bool grow(TokenTree& tree, WorkItem& item);
  void on_guessed(TokenTree& tree, const WorkResult& result);
  // Return the guesses that are worth a row, in order, and the probability that each is accepted
  // along with its path.
  std::span<const NodeId> rows() const { return std::span(guesses_).first(num_rows_); }
  float chance(size_t row) const { return chances_[row]; }
  // Reports that the check's tokens agree with the chain down to `end`, which is begin()'s node or
  // a guess; the check's next token is `token` (below 0: none). Drops the guesses below `end`,
  // except one that equals `token`, which becomes the tree's last node.
  void settle(TokenTree& tree, NodeId end, TokenId token);

  // Reports that the chain has been verified: `path`, the root first, then `token` at `position`,
  // which becomes the root of a new tree. The part of the path that the draft model has run becomes
  // prefix.
  void move_root(TokenTree& tree, std::span<const NodeId> path, TokenId token, int32_t position);

 private:
  void weigh(const TokenTree& tree, NodeId parent, std::vector<Guess>& guesses) override;
  // Both return false if there is no guess, or none that is worth continuing.
  bool add_guess(TokenTree& tree, std::span<const Candidate> candidates);
  bool take_guess(const TokenTree& tree, NodeId guess);
  void fill_item(TokenTree& tree, WorkItem& item);
  // Returns the smallest chance at which a guess is worth a row beside `rows` others.
  float min_chance(size_t rows) const;

  const Config config_;
  GuessList guess_list_;
  DraftKv draft_kv_;
  Acceptance acceptance_;
  CostTable costs_;
  std::vector<TokenId> tokens_;  // verified tokens; kept only if there is a source

  NodeId tip_ = kNoNode;  // the last node below which guesses may be added
  std::vector<NodeId> guesses_;
  std::vector<float> chances_;  // chances of guesses_
  size_t num_rows_ = 0;         // number of guesses_ that are worth a row
  bool ended_ = true;
  bool reads_ = true;
  bool has_read_ = false;
  std::vector<NodeId> scratch_;
};

}  // namespace forerun
