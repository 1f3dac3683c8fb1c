// Sparse self-speculation (MagicDec): where contexts are long and requests many, a Step's time goes
// into reading KV, not weights. The target drafts for itself: through a view of its own KV
// (views/) it guesses a chain of tokens, one a Step, and then verifies all of them in one Step that
// reads the whole KV. The tokens are those of plain decoding, one for one, whatever the view.
//
// A round: draft_depth (γ) draft items of a row each, one verification of γ + 1 rows, then the KV
// edits of what was learnt, which travel with the next item.
// - Draft rows are tree rows. Their KV, which is what a row computes that does not see everything,
//   lies behind the prefix; the verification drops it and writes its own into the same slots.
// - All items are the target's, so draft and verification rows of several requests share Steps;
//   nobody waits for another's round.
// - As long as the whole text fits into the view's budget, a view saves nothing: plain decoding.
// No node lies so far that its row or the token after it would pass RequestView::max_tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "strategies/strategy_table.h"
#include "strategies/verification.h"
#include "tree/token_tree.h"

namespace forerun {

class SparseSelf : public Strategy {
 public:
  // For the table of strategies.
  static OptionSet uses(const TreeShape& shape);
  static Status check(SpeculationPlan& plan);
  static std::unique_ptr<Strategy> make(const SpeculationPlan& plan, const StrategyParts& parts);

  SparseSelf(KvViewSpec view, int32_t draft_depth, bool record_rounds);

  void start(const RequestView& request, StrategyOutput& out) override;
  void on_result(const WorkResult& result, StrategyOutput& out) override;
  void on_costs(const CostTable&) override {}
  StrategyStats stats() const override { return stats_; }
  const char* name() const override { return "sparse_self"; }

 private:
  enum class Phase : uint8_t { kIdle, kPrefill, kDrafting, kVerifying };

  void begin_round(TokenId root, StrategyOutput& out);
  void draft_or_verify(StrategyOutput& out);
  void submit_draft_item(StrategyOutput& out);
  void submit_verification(StrategyOutput& out);
  void on_drafted(const WorkResult& result);
  void on_verified(const WorkResult& result, StrategyOutput& out);
  WorkItem make_item();

  const KvViewSpec view_;
  const int32_t draft_depth_;
  const bool record_rounds_;

  SequenceId sequence_ = 0;
  int32_t max_tokens_ = 0;
  int32_t length_ = 0;         // verified tokens; the last one is the root
  TokenTree tree_;             // a chain
  NodeId last_ = kNoNode;      // of the chain
  int32_t drafts_left_ = 0;    // steps of this round
  std::vector<Edit> edits_;    // to travel with the next item
  Verification verification_;  // of the chain; in flight, or the last one

  Phase phase_ = Phase::kIdle;
  uint64_t awaited_tag_ = 0;
  StrategyStats stats_;
};

}  // namespace forerun
