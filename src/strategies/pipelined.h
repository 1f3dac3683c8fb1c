// Speculation that fills a pipeline (SpecPipe). Target items enter the first stage one after the
// other before the results of earlier ones have arrived, each with nodes of one growing tree, which
// the draft extends meanwhile. Every result moves the root as far down as the target's tokens go,
// and nodes that do not descend from it are dropped, even in flight. Under rule `match` the tokens
// are exactly those of plain decoding, for any order of entry notices, results and drafts.
//
// An item is submitted as soon as the previous one has entered (WorkResult::entered): rows are
// chosen as late as possible, and as many items are in flight as the pipeline holds. If the target
// has no stages, an item's result counts as its notice: a pipeline of one stage.
//
// The nodes of an item:
// - shape `best` and `adaptive`: the w likeliest nodes that have not been sent, at any depth,
//   including late siblings of sent ones. The draft runs the likeliest leaves, step after step.
//   Probabilities are calibrated by the guesses that have been accepted (acceptance.h).
// - shape `levels`: the next level of a tree of fixed width (SpecPipe §3.2, §3.3.3), i.e. the w
//   likeliest children of the previous level, one level per step. The draft is one level ahead.
//
// A miss means that the token sampled after the root was not sent. All rows in flight are then
// useless; the next item begins with the new root, followed by the draft's nodes below it if the
// draft had guessed it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "strategies/acceptance.h"
#include "strategies/draft_kv.h"
#include "strategies/guess_list.h"
#include "strategies/item_choice.h"
#include "strategies/strategy_table.h"
#include "tree/token_tree.h"

namespace forerun {

struct PipelinedConfig {
  bool has_draft_model = true;
  bool by_levels = false;  // shape `levels`
  bool width_from_costs = false;
  int32_t width = 64;        // w: maximum rows of an item; fewer beside other requests
  int32_t draft_width = 64;  // leaves of a draft step; by_levels or width_from_costs: w
  int32_t children_per_leaf = 16;
  int32_t tree_tokens = 0;   // see ModelFacts
  int32_t target_vocab = 0;  // see ModelFacts
  int32_t draft_vocab = 0;
  bool record_rounds = false;
  AcceptSpec accept;  // kMatch, kRelaxed or kNucleus
};

class Pipelined : public Strategy {
 public:
  // Entries of the table of strategies.
  static OptionSet uses(const TreeShape& shape, bool has_source);
  static Status check(SpeculationPlan& plan);
  static std::unique_ptr<Strategy> make(const SpeculationPlan& plan, const StrategyParts& parts);

  // `source` may be null if there is a draft model. `shared` may be null.
  Pipelined(const PipelinedConfig& config, std::unique_ptr<DraftSource> source,
            std::shared_ptr<SharedAcceptance> shared);

  void start(const RequestView& request, StrategyOutput& out) override;
  void on_result(const WorkResult& result, StrategyOutput& out) override;
  void on_costs(const CostTable& costs) override;
  StrategyStats stats() const override { return stats_; }
  const char* name() const override { return "pipelined"; }

  // Returns the present tree, for tests.
  const TokenTree& tree() const { return tree_; }

 private:
  // Shape `levels` uses log-probabilities as their origin gives them, like the paper; other shapes
  // calibrate them.
  class Judge : public GuessJudge {
   public:
    Judge(const Acceptance* acceptance, bool calibrates)
        : acceptance_(*acceptance), calibrates_(calibrates) {}
    void weigh(const TokenTree&, NodeId, std::vector<Guess>& guesses) override {
      if (calibrates_) acceptance_.weigh(guesses);
    }

   private:
    const Acceptance& acceptance_;
    const bool calibrates_;
  };
  // A copy of a node that was sent: the node may have left the tree by the time its item returns.
  struct SentNode {
    NodeId node = kNoNode;
    NodeId parent = kNoNode;
    TokenId token = 0;
    float logprob = 0.0f;
    GuessOrigin origin = GuessOrigin::kModel;
    bool accepted = false;
  };
  // A target item that has no result yet.
  struct Flight {
    uint64_t tag = 0;
    std::vector<SentNode> guesses;  // nodes other than the root that have not been accepted yet
  };
  struct DraftStep {
    uint64_t tag = 0;  // 0: none
    std::vector<NodeId> leaves;
    bool is_new = false;  // submitted in this turn
  };

  int32_t length() const { return static_cast<int32_t>(tokens_.size()); }
  bool is_sent(NodeId node) const {
    return tree_.expansion(Role::kTarget, node) != Expansion::kUnexpanded;
  }

  // ask() sets the answer that a row requests from the target; choose_token() chooses the token
  // from the row's result.
  void ask(WorkRow& row) const;
  void choose_token(NodeId node, RowResult& row) const;
  void on_verified(const WorkResult& result, StrategyOutput& out);
  // Emits the tokens that the known samples lead to; returns whether the root has moved.
  bool walk(StrategyOutput& out);
  void move_root(NodeId next);
  // Marks `node`, which was sent, as accepted.
  void accept_guess(NodeId node);
  // Takes the target's token after `node`.
  void learn(NodeId node, TokenId drawn);
  void record(TokenId bonus, bool hit, StrategyOutput& out);
  void on_drafted(DraftStep& step, const WorkResult& result);
  // Submits all items that can be submitted.
  void go_on(StrategyOutput& out);

  // The target's items.
  void send(StrategyOutput& out);
  // Returns whether the item in nodes_ should wait for the running draft step.
  bool waits() const;
  void add_row(NodeId node, WorkItem& item, Flight& flight);
  void take_target_edits(WorkItem& item);

  // Draft items.
  void grow_by_source();
  void draft(StrategyOutput& out);
  void submit_draft_step(DraftStep& step, StrategyOutput& out);
  bool tree_is_growing() const;

  // Shape `levels`.
  void next_level();
  void restore_level();
  // Replaces level_ by the w likeliest of the nodes at `depth` that have not been sent.
  void take_level(int32_t depth);

  const PipelinedConfig config_;
  int32_t width_;
  // Nodes below this weight are not sent: a row must save a forward pass often enough to pay for
  // its share of one.
  float min_weight_ = -std::numeric_limits<float>::infinity();
  ItemChoice choice_;
  GuessList guesses_;
  Acceptance acceptance_;
  Judge judge_;

  SequenceId sequence_ = 0;
  int32_t logprobs_ = -1;  // SamplingParams::logprobs
  bool is_lossy_ = false;
  int32_t max_tokens_ = 0;
  std::vector<TokenId> tokens_;  // verified tokens; the last one is the root
  TokenTree tree_;
  bool root_is_prefix_ = false;  // its row was a prefix row, so its children's rows name no parent
  bool prefilled_ = false;

  // State of the target.
  std::deque<Flight> flights_;  // in the order of submission
  uint64_t entering_tag_ = 0;  // tag of the item that has not entered; 0: the next item may be sent
  std::unordered_map<NodeId, RowResult> drawn_;  // the token after a node of the tree
  int32_t rows_with_kv_ = 0;       // nodes of the tree with rows that have run or are in flight
  std::vector<NodeId> committed_;  // path that becomes prefix with the next edits
  bool drops_ = false;             // the next edits also drop nodes
  std::vector<SentNode> to_record_;

  // State of the draft.
  DraftKv draft_kv_;
  int32_t draft_nodes_ = 0;         // nodes of the tree that the draft has run or is running
  std::array<DraftStep, 2> steps_;  // a second may follow one that a reroot made useless
  bool draft_prefilled_ = false;

  // Shape `levels`: the deepest level that has been chosen, and whether it has been sent.
  std::vector<NodeId> level_;
  bool level_sent_ = false;

  uint64_t next_tag_ = 1;
  StrategyStats stats_;
  std::vector<NodeId> nodes_, path_;  // reused memory
};

}  // namespace forerun
