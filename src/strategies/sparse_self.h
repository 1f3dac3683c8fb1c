// Sparse self-speculation (MagicDec): where contexts are long and requests many, a Step's time goes
// into reading KV, not weights. The target drafts for itself: through a view of its own KV (views/)
// it guesses a chain of tokens, one a Step, and then verifies all of them in one Step that reads
// the whole KV. The tokens are exactly those of plain decoding, whatever the view.
//
// A round: draft items until the chain has draft_depth (γ) tokens, one verification of all of them,
// then the resulting KV edits, which go with the next item.
// - A draft item is the row of the chain's last token, which brings the next one. Where there is a
//   source (TriForce's hierarchy), it guesses first, and the item has a row for each guess too, at
//   most draft_width in all: one Step confirms a run of guesses, by the rule that verification
//   uses, and adds one token of the view's own. So the chain may grow some tokens longer than γ
//   (guess_chain.h).
// - Draft rows are tree rows. Their KV lies after the prefix and is not plain decoding's, since
//   the rows do not see everything; the verification drops it and writes its own into the same
//   slots.
// - All items are the target's, except a draft model's, so draft and verification rows of several
//   requests share Steps, and no request waits for another's round.
// - A Step in which some requests draft and others verify has many rows and reads much KV, so it
//   costs more than half a Step of each kind. Rounds without a source are therefore aligned with
//   the numbers of Steps: a request's first round has fewer guesses, so that it verifies in a Step
//   whose number is γ modulo γ + 1. A request that misses a Step later is not aligned again.
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
  // For the table of strategies.
  static OptionSet uses(const TreeShape& shape, bool has_source);
  static Status check(SpeculationPlan& plan);
  static std::unique_ptr<Strategy> make(const SpeculationPlan& plan, const StrategyParts& parts);

  struct Config {
    KvViewSpec view;
    int32_t draft_depth = 4;
    bool record_rounds = false;
    GuessChain::Config guesses = {};
  };
  // `source` and `shared`: as in GuessChain.
  explicit SparseSelf(const Config& config, std::unique_ptr<DraftSource> source = nullptr,
                      std::shared_ptr<SharedAcceptance> shared = nullptr);

  void start(const RequestView& request, StrategyOutput& out) override;
  void on_result(const WorkResult& result, StrategyOutput& out) override;
  void on_costs(const CostTable& costs) override { guesses_.on_costs(costs); }
  // The source reads what has been verified.
  void prepare() override;
  StrategyStats stats() const override { return stats_; }
  const char* name() const override { return "sparse_self"; }

 private:
  enum class Phase : uint8_t { kIdle, kPrefill, kGuessing, kDrafting, kVerifying };

  // Needs a tree_ that is only a root. `step`: WorkResult::step of what ran last; 0: unknown.
  void begin_round(int64_t step, StrategyOutput& out);
  // Returns how many tokens the chain is to reach in the round that begins after Step `step`; 0
  // while the text fits into the view's budget. It aligns the first round whose Step is known.
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
  bool may_align_;  // the next round may be shortened to end with others; false with a source
  GuessChain guesses_;
  std::vector<Edit> edits_;    // edits that travel with the target's next item
  Verification verification_;  // the chain's verification in flight, or the last one

  Phase phase_ = Phase::kIdle;
  uint64_t awaited_tag_ = 0;
  StrategyStats stats_;
};

}  // namespace forerun
