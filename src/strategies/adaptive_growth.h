// Decides the size and shape of the tree, or plain decoding, step by step, from the costs of Steps
// and from how often guesses have been accepted.
//
// The rule: a node's weight is its calibrated log-probability (acceptance.h), so exp(weight) is the
// probability that its path is accepted, and a verification of n nodes is expected to yield
//   E = 1 + sum of exp(weight) over its nodes but the root.
// Time is counted in plain steps (one target row alone = 1). The best long-run rate of tokens is
// reached by maximizing E - rate * time in every round, where `rate` is the present rate
// (Dinkelbach's method for ratios): an average over recent rounds, never below 1, since plain
// decoding is always possible.
// - Verification: the n that maximizes E(n) - rate * t_target(n), with nodes in order of weight. In
//   a batch, all nodes that might pay are offered, and the executor drops those that do not
//   (exec/guess_rows.h), since the cost of a row depends on the other requests' offers.
// - Another draft step: plans of several widths and up to several steps ahead are evaluated, with
//   average probabilities (DraftProfile) for guesses that are not yet known. The draft runs the
//   width of the best plan as long as that plan beats verifying now; after each step the decision
//   is repeated with the actual guesses. If draft steps hold up a batch, a step is offered as long
//   as it has any gain, and the executor, which sees the gains of all requests, runs it or drops it
//   (WorkItem::gain).
// - No draft step: if none pays at the root, the round is plain decoding (or verifies a model-free
//   source's guesses, which cost no step). The draft's KV then lags behind, and the cost of
//   catching up is charged to the plan that starts drafting again, spread over future rounds.
// - Probing: while no draft step seems to pay, nothing new is learnt about the draft. So an
//   allowance of 0.7% of the time of all requests accumulates, and kProbeRounds rounds of drafting
//   run whenever it covers their expected loss, including the cost of catching up. A wrong estimate
//   is thus corrected, and a right one costs less than 1%.
// - Rest: a decision takes some microseconds of the host's time, which in a large batch are a
//   percent of a Step. After rounds without guesses, or with guesses that were all dropped, the
//   next rounds are plain without a decision. The number of such rounds is higher the less a round
//   could gain at best and, in a batch, where all requests wait while one decides, the less rounds
//   have gained lately.
// - Sources: guesses come from the sources that the costs allow (CostTable::sources). The gain of
//   the others is still estimated and shared with all requests (SharedAcceptance). With no source
//   allowed, rounds are plain decoding; guesses from the text are still compared with the output.
// The emitted tokens do not depend on any of these decisions.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "strategies/acceptance.h"
#include "strategies/tree_growth.h"

namespace forerun {

class AdaptiveGrowth : public TreeGrowth {
 public:
  struct Params {
    int32_t children_per_leaf = 0;  // 0: 8
    bool has_draft_model = true;
    // The draft also grows the tree while the target runs (parallel_tree). A step that the target
    // waits for then gains less than it seems, since part of the gain would have come without
    // waiting, and unlikely guesses need not be dropped.
    bool runs_beside = false;
  };
  // `shared` may be null.
  AdaptiveGrowth(const Params& params, std::shared_ptr<SharedAcceptance> shared);

  void begin_round(const TokenTree& tree, const RoundStart& start) override;
  bool rests() const override { return resting_; }
  void wake() override { rest_rounds_ = 0; }
  bool rest_on() override;
  void next_leaves(TokenTree& tree, std::vector<LeafRequest>& out) override;
  float gain() const override { return gain_; }
  void on_left_out() override;
  void choose(TokenTree& tree, std::vector<NodeId>& out) override;
  void weigh(const TokenTree& tree, NodeId parent, std::vector<Guess>& guesses) override;
  bool weights_are_chances() const override { return true; }
  void on_verified(const TokenTree& tree, size_t nodes, std::span<const NodeId> path,
                   std::span<const TokenId> sampled) override;
  void on_costs(const CostTable& costs) override;
  int32_t source_nodes() const override {
    return sources_.text || !sources_.drafts ? kSourceNodes : 0;
  }
  float min_chance() const override { return rate() * min_row_; }

 private:
  static constexpr int32_t kSourceNodes = 12;
  static constexpr int32_t kMaxNodes = 48;  // nodes of a planned verification, without the root

  // A leaf of the plan: its chance of being accepted, and its DraftProfile context.
  struct Leaf {
    float chance = 0.0f;
    int32_t context = 0;
  };
  struct Plan {
    float value = 0.0f;   // E - rate * time, the value of the plan
    int32_t width = 0;    // leaves to run now; 0: verify
    float tokens = 1.0f;  // E, the expected tokens
    float time = 1.0f;    // total time of draft and target
  };
  // The best number of nodes to verify, given their chances (descending, without the root).
  struct Choice {
    float value = 0.0f;
    float tokens = 1.0f;  // expected tokens
    int32_t nodes = 1;    // nodes to verify, the root included
  };

  float rate() const;
  float target_time(int32_t rows) const { return target_time_[row_index(rows)]; }
  float draft_time(int32_t rows) const;
  // Returns the time charged for a verification of `rows` rows, beyond a plain Step.
  float extra_time(int32_t rows) const;
  static size_t row_index(int32_t rows);
  Choice best_choice(const std::vector<float>& chances) const;
  // Returns how many nodes are offered to the executor, the root included.
  int32_t offered(const std::vector<float>& chances) const;
  void collect(TokenTree& tree);
  // Records a round that verified `nodes` nodes and emitted `tokens` tokens.
  void end_round(size_t nodes, size_t tokens);
  // Reports the expected gain of this round to all requests, before its first draft step. `plan`
  // null: there is no draft model.
  void tell_expected(const Choice& by_text, const Plan* plan);
  Plan best_plan(bool root_first, int32_t rows_behind);
  // Grows the plan's tree by one step of `width` leaves.
  void imagine_step(int32_t width);
  bool worth_probing(float loss_per_round, int32_t rows_behind);
  // Returns how many rounds to rest after a round without guesses.
  int32_t rest_after(int32_t idle_rounds) const;

  Params params_;
  Acceptance acceptance_;
  std::array<float, CostTable::kMaxRows + 1> target_time_{};
  std::array<float, CostTable::kMaxRows + 1> draft_time_{};
  float min_row_ = 0.0f;          // as in CostTable, in plain steps
  float look_gain_ = 0.0f;        // tokens that rest may forgo for the benefit of the batch
  float decision_price_ = 0.0f;   // tokens that the batch forgoes by one decision
  float draft_alone_ = 1.0f;      // as in CostTable
  bool drafts_together_ = false;  // as in CostTable
  bool drafts_rest_ = false;      // as in CostTable
  GuessSources sources_;          // as in CostTable
  bool informs_ = true;           // as in CostTable

  // Decaying sums over recent rounds.
  float recent_tokens_;
  float recent_time_;
  float recent_rounds_;
  int32_t probe_rounds_ = 0;
  int32_t idle_rounds_ = 0;  // consecutive rounds that were decided and made no guess
  int32_t rest_rounds_ = 0;  // remaining rounds of rest
  float max_gain_ = 0.0f;    // tokens that a round gains if hardly any guess is wrong

  // State of this round.
  RoundStart start_;
  bool root_expanded_ = false;
  bool resting_ = false;
  bool told_expected_ = false;
  int32_t steps_ = 0;
  float time_ = 0.0f;
  float step_time_ = 0.0f;  // time of the last draft step, a part of time_
  float gain_ = 0.0f;       // expected gain of that step

  std::vector<float> chances_, planned_chances_;  // descending
  std::vector<Leaf> open_, planned_open_;         // descending
  std::vector<NodeId> nodes_;
};

}  // namespace forerun
