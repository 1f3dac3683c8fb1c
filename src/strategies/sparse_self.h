// Sparse self-speculation (MagicDec): with long contexts and many requests, a Step spends its time
// on reading KV, not weights. The target drafts for itself: through a view of its own KV (views/)
// it guesses a chain of tokens, one per Step, and then verifies all of them in one Step that reads
// the whole KV. The tokens are exactly those of plain decoding, for any view.
//
// A round has draft items until the chain has draft_depth (γ) tokens, one verification of all of
// them, then the resulting KV edits, which go with the next item.
// - A draft item is the row of the chain's last token, which gives the next token. If there is a
//   source (TriForce's hierarchy), it guesses first, and the item also has a row for each guess, at
//   most draft_width in all: one Step confirms a run of guesses, by the rule that verification
//   uses, and adds one token from the view itself. So the chain may become some tokens longer than
//   γ (guess_chain.h).
// - Draft rows are tree rows. Their KV lies after the prefix and differs from plain decoding's,
//   since the rows do not see all tokens; the verification drops it and writes its own into the
//   same slots.
// - All items are the target's, except a draft model's, so draft and verification rows of several
//   requests share Steps, and no request waits for another's round.
// - A Step in which some requests draft and others verify has many rows and reads much KV, so it
//   costs more than half a Step of each kind. Rounds without a source are therefore aligned with
//   the numbers of Steps: a request's first round has fewer guesses, so that it verifies in a Step
//   with a number that is γ modulo γ + 1. A request that misses a Step later is not aligned again.
// - As long as the whole text fits into the view's budget, a view saves nothing: plain decoding.
// No node is so deep that its row or the token after it would pass RequestView::max_tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "strategies/guess_chain.h"
#include "strategies/strategy_table.h"
#include "strategies/verification.h"
#include "tree/token_tree.h"

namespace forerun {

class SparseSelf : public Strategy {
 public:
  // Entries of the table of strategies.
  static OptionSet uses(const TreeShape& shape, bool has_source);
  static Status check(SpeculationPlan& plan);
  static std::unique_ptr<Strategy> make(const SpeculationPlan& plan, const StrategyParts& parts);

  struct Config {
    KvViewSpec view;
    int32_t draft_depth = 4;
    bool record_rounds = false;
    GuessChain::Config guesses = {};
  };
  // `source` and `shared`: see GuessChain.
  explicit SparseSelf(const Config& config, std::unique_ptr<DraftSource> source = nullptr,
                      std::shared_ptr<SharedAcceptance> shared = nullptr);

  void start(const RequestView& request, StrategyOutput& out) override;
  void on_result(const WorkResult& result, StrategyOutput& out) override;
  void on_costs(const CostTable& costs) override { guesses_.on_costs(costs); }
  // Lets the source read the verified tokens.
  void prepare() override;
  StrategyStats stats() const override { return stats_; }
  const char* name() const override { return "sparse_self"; }

 private:
  enum class Phase : uint8_t { kIdle, kPrefill, kGuessing, kDrafting, kVerifying };

  // tree_ must have only a root. `step` is WorkResult::step of the last result; 0: unknown.
  void begin_round(int64_t step, StrategyOutput& out);
  // Returns the number of tokens that the chain is to reach in the round that begins after Step
  // `step`; 0 while the text fits into the view's budget. It aligns the first round with a known
  // Step.
  int32_t align_round(int64_t step);
  void draft_or_verify(StrategyOutput& out);
  void guess_or_draft(StrategyOutput& out);
  void submit_draft_item(StrategyOutput& out);
  void submit_verification(StrategyOutput& out);
  void on_prefilled(const WorkResult& result, StrategyOutput& out);
  void on_drafted(const WorkResult& result);
  void on_verified(const WorkResult& result, StrategyOutput& out);
  WorkItem make_item();
  void submit(WorkItem item, Phase phase, StrategyOutput& out);

  const Config config_;

  SequenceId sequence_ = 0;
  int32_t max_tokens_ = 0;
  int32_t length_ = 0;     // verified tokens; the last one is the root
  TokenTree tree_;         // a chain, and below it guesses that are to be checked
  NodeId last_ = kNoNode;  // the chain's last node
  int32_t depth_ = 0;      // the depth that the chain is to reach in this round
  // The next round may be shortened to end with others; false if there is a source.
  bool may_align_;
  GuessChain guesses_;
  std::vector<Edit> edits_;    // edits that go with the target's next item
  Verification verification_;  // the chain's verification in flight, or the last one

  Phase phase_ = Phase::kIdle;
  uint64_t awaited_tag_ = 0;
  StrategyStats stats_;
};

}  // namespace forerun
