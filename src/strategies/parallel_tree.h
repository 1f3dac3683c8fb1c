// Parallel tree generation (SwiftSpec §3.1-3.2, Algorithm 1): the draft continues to grow the tree
// while the target verifies part of it. The tokens are exactly those of plain decoding, for any
// tree and any order of results. docs/parallel-tree.md shows a round as a diagram.
//
// The target has one verification in flight; the draft runs the best leaves, one step after the
// other, at most `draft_depth` steps for each verification. Results may come in any order:
// - The target's: its tokens are followed down the tree, which has grown meanwhile. If the last one
//   is a node, the tree is rerooted there and keeps that node's subtree, with the subtree's KV in
//   the draft (a hit); if not, the tree starts again from that token (a miss). If the growth finds
//   too few nodes left to verify, the draft runs more steps first; otherwise the next verification
//   starts at once, at any state of the draft.
// - The draft's: guesses below nodes that are still in the tree join it. If a reroot drops nodes
//   while they run, the draft's next item drops their KV, which takes effect later; nodes that the
//   reroot kept count as run already.
// The prompt is the first verification, with only its last token to verify, so the draft also
// guesses during the prefill.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "drafts/draft_source.h"
#include "strategies/draft_kv.h"
#include "strategies/guess_list.h"
#include "strategies/strategy_table.h"
#include "strategies/tree_growth.h"
#include "strategies/verification.h"
#include "tree/token_tree.h"

namespace forerun {

struct ParallelTreeConfig {
  int32_t verify_tokens = 8;  // bs; with fewer nodes, the target waits for a draft step in flight
  int32_t draft_width = 8;    // w: leaves of a draft step while the target verifies
  int32_t draft_depth = 4;    // d: number of such steps per verification
  bool sizes_from_costs = false;  // w and d are derived from costs, once those are measured
  int32_t extra_draft_steps = 0;  // added to the d that is derived from costs
  int32_t children_per_leaf = 0;  // see SpeculationOptions
  int32_t target_vocab = 0;
  int32_t draft_vocab = 0;
  bool record_rounds = false;
};

class ParallelTree : public Strategy {
 public:
  // Entries of the table of strategies.
  static OptionSet uses(const TreeShape& shape, bool has_source);
  static Status check(SpeculationPlan& plan);
  static std::unique_ptr<Strategy> make(const SpeculationPlan& plan, const StrategyParts& parts);

  // The largest number of nodes that the draft runs ahead of the verified text: its KV has room for
  // these.
  static constexpr int32_t kMaxDraftNodes = 192;

  // `source` adds guesses at the nodes that the draft runs; may be null. `growth` decides how a
  // tree with too few nodes is topped up, and what is verified.
  ParallelTree(const ParallelTreeConfig& config, std::unique_ptr<DraftSource> source,
               std::unique_ptr<TreeGrowth> growth);

  void start(const RequestView& request, StrategyOutput& out) override;
  void on_result(const WorkResult& result, StrategyOutput& out) override;
  void on_costs(const CostTable& costs) override;
  StrategyStats stats() const override { return stats_; }
  const char* name() const override { return "parallel_tree"; }
  // Returns the number of nodes in the tree, for tests.
  int32_t tree_size() const { return tree_.size(); }

 private:
  // A draft step that has no result yet.
  struct DraftStep {
    uint64_t tag = 0;  // 0: none
    std::vector<LeafRequest> leaves;
  };

  int32_t length() const { return static_cast<int32_t>(tokens_.size()); }
  void on_drafted(DraftStep& step, const WorkResult& result);
  void on_verified(const WorkResult& result, StrategyOutput& out);
  // Moves the root to `next`, the node of the last token, or starts a new tree (kNoNode).
  void move_root(NodeId next);
  void begin_round();

  // Submits all items that can be submitted.
  void go_on(StrategyOutput& out);
  void top_up_or_verify(StrategyOutput& out);
  void draft_ahead(StrategyOutput& out);
  void submit_verification(StrategyOutput& out);
  void submit_draft_step(DraftStep& step, StrategyOutput& out);
  DraftStep* idle_step();
  // Returns whether a draft step is in flight that will add to the present tree.
  bool tree_is_growing() const;

  const ParallelTreeConfig config_;
  GuessList guesses_;
  std::unique_ptr<TreeGrowth> growth_;

  SequenceId sequence_ = 0;
  int32_t max_tokens_ = 0;
  std::vector<TokenId> tokens_;  // verified tokens; the last one is the root
  TokenTree tree_;
  DraftKv draft_kv_;
  int32_t draft_nodes_ = 0;  // number of nodes of the tree that the draft has run or is running

  int32_t width_;
  int32_t depth_;
  Verification verification_;
  uint64_t verification_tag_ = 0;   // 0: the target has no work
  std::vector<Edit> target_edits_;  // edits that go with the target's next item
  // The second step may be submitted while a step that a reroot has made useless is in flight.
  std::array<DraftStep, 2> steps_;
  int32_t steps_ahead_ = 0;  // draft steps since the submission of the verification in flight
  bool target_prefilled_ = false;
  bool draft_prefilled_ = false;
  uint64_t next_tag_ = 1;
  StrategyStats stats_;
  std::vector<NodeId> nodes_;  // reused memory
};

}  // namespace forerun
