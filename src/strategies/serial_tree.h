// Sequential drafting and verification (the paper's "serial" speculation): the draft side grows a
// tree below the last verified token, the target runs part of it in one Step, and the tokens
// of the target's own sampler are followed down the tree. Under rule `match` the tokens are exactly
// those of plain decoding, for any tree.
//
// A round has draft items until the growth has enough nodes, one target item, then the resulting KV
// edits, which go with the next item of each role.
// - Target: the accepted path is committed, all other nodes are dropped. A round that verifies only
//   the root runs it as a prefix row, which is plain decoding.
// - Draft: the part of the path that it has run is committed; if the new root is in the tree, its
//   subtree's KV is kept and never computed again. Verified tokens that the draft has not run are
//   prefix rows of its next item: the prompt at first, several tokens after some plain rounds. So
//   the first token does not wait for the draft, and a draft that does not pay reads no prompts.
// - A model-free source adds guesses at the nodes that the draft runs and, for one verification
//   only, below the nodes that it has not run. It reads the prompt after the draft's first item.
// No node is so deep that its row or the token after it would pass RequestView::max_tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "strategies/draft_kv.h"
#include "strategies/guess_list.h"
#include "strategies/strategy_table.h"
#include "strategies/tree_growth.h"
#include "strategies/verification.h"
#include "tree/token_tree.h"

namespace forerun {

struct SerialTreeConfig {
  bool has_draft_model = true;
  bool draft_is_head = false;
  AcceptRule accept = AcceptRule::kMatch;
  int32_t target_vocab = 0;  // see ModelFacts
  int32_t draft_vocab = 0;
  bool record_rounds = false;
  KvViewSpec view = {};  // the part of its KV that the draft model sees
};

class SerialTree : public Strategy {
 public:
  // Entries of the table of strategies.
  static OptionSet uses(const TreeShape& shape, bool has_source);
  static Status check(SpeculationPlan& plan);
  static std::unique_ptr<Strategy> make(const SpeculationPlan& plan, const StrategyParts& parts);

  // `source` may be null if there is a draft model.
  SerialTree(const SerialTreeConfig& config, std::unique_ptr<DraftSource> source,
             std::unique_ptr<TreeGrowth> growth);

  void start(const RequestView& request, StrategyOutput& out) override;
  void on_result(const WorkResult& result, StrategyOutput& out) override;
  void on_costs(const CostTable& costs) override { growth_->on_costs(costs); }
  // Lets the source read the verified tokens.
  void prepare() override;
  StrategyStats stats() const override { return stats_; }
  const char* name() const override { return "serial_tree"; }

 private:
  enum class Phase : uint8_t { kIdle, kPrefill, kDrafting, kVerifying, kResting };

  int32_t length() const { return static_cast<int32_t>(tokens_.size()); }

  // Drafting.
  void begin_round(StrategyOutput& out);
  void continue_drafting(StrategyOutput& out);
  void submit_draft_item(StrategyOutput& out);
  // Handles a draft item that was left out: the round continues with the present nodes.
  void on_left_out(StrategyOutput& out);
  void on_drafted(const WorkResult& result, StrategyOutput& out);
  void add_guesses(NodeId node, std::span<const Candidate> candidates, int32_t count) {
    guesses_.add_children(tree_, node, candidates, count, *growth_);
  }
  void drop_source_nodes() { tree_.truncate(model_size_); }
  void add_source_nodes();

  // Verification: submit_verification() verifies verification_.nodes().
  void submit_verification(StrategyOutput& out);
  void on_verified(const WorkResult& result, StrategyOutput& out);
  // Plain rounds without a tree. If guesses do not pay in a batch, nearly all rounds are of this
  // kind, and the host's work for each of them delays all requests.
  void submit_plain_row(StrategyOutput& out);
  void on_rested(const WorkResult& result, StrategyOutput& out);
  // Takes the tokens of `out` after the first `before` as verified.
  void take_emitted(const StrategyOutput& out, size_t before);

  // Returns the node of the last token, if the draft guessed it; otherwise kNoNode.
  NodeId next_root() const;
  // Moves the root to `next`, or starts a new tree at the last token; the draft's KV follows.
  void advance(NodeId next);
  void place_root(TokenId token);

  WorkItem make_item(Role role);

  const SerialTreeConfig config_;
  GuessList guesses_;
  std::unique_ptr<TreeGrowth> growth_;

  SequenceId sequence_ = 0;
  int32_t max_tokens_ = 0;
  std::vector<TokenId> tokens_;  // verified tokens; the last one is the root
  TokenTree tree_;
  // Rows of the tree with children that the model guessed, alone or with a source.
  int32_t model_size_ = 1;
  DraftKv draft_kv_;
  int32_t missing_rows_ = 0;        // prefix rows of the draft item in flight, before its leaves
  std::vector<Edit> target_edits_;  // edits that go with the target's next item

  Phase phase_ = Phase::kIdle;
  uint64_t next_tag_ = 1;
  uint64_t awaited_tag_ = 0;
  std::vector<LeafRequest> requests_;  // leaves of the draft item in flight
  Verification verification_;          // the verification in flight, or the last one
  StrategyStats stats_;

  // Reused memory.
  std::vector<NodeId> nodes_;
  std::vector<int32_t> open_rows_;
};

}  // namespace forerun
