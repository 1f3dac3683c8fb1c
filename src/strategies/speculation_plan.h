// How a request speculates: its options, resolved and checked once, at submission. A plan is
// immutable and travels with the request to where its strategy is made, again after a preemption;
// making a strategy from it cannot fail. Requests that bring no options share the engine's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "drafts/draft_source_table.h"
#include "forerun/speculation_options.h"
#include "forerun/status.h"
#include "step/cost_table.h"
#include "step/work.h"
#include "strategies/accept_rule_table.h"
#include "strategies/tree_shape.h"
#include "views/view_table.h"

namespace forerun {

class SharedAcceptance;
class Strategy;
struct StrategyEntry;

// Facts of the models by which options are checked.
struct ModelFacts {
  bool has_draft_model = true;
  bool draft_is_head = false;  // a trained head, which reads the target's hidden states
  // Token ids that the models know; 0: no limit. Guesses beyond the target's are dropped. A token
  // that the draft does not know is fed to the draft as its last known id: its guesses get worse
  // for a while, the output stays what it is.
  int32_t target_vocab = 0;
  int32_t draft_vocab = 0;
  int32_t max_context = 0;  // tokens; 0: no limit
  int32_t tree_tokens = 0;  // rows that a tree may have in the target's KV; 0: no limit
  // By role: whether the model has layers that see only a window of the last tokens.
  std::array<bool, kNumRoles> has_window = {};
  // By role: whether its devices choose and gather KV (Decoder::selects_kv()).
  std::array<bool, kNumRoles> selects_kv = {true, true};
  // By role: whether its devices find KV by quantized keys too (Decoder::quantizes_keys()).
  std::array<bool, kNumRoles> quantizes_keys = {true, true};
  std::array<int32_t, kNumRoles> head_dim = {64, 64};  // by role
};

// What a strategy is made from beside its plan.
struct StrategyParts {
  // What requests learn from each other about how often guesses are right; null: nothing. All
  // strategies that share it run on one thread.
  std::shared_ptr<SharedAcceptance> shared;
  // The argument of Strategy::on_costs(). Where nothing was measured, ratios typical of a draft
  // that costs a fifth of its target.
  CostTable costs;
  bool record_rounds = false;  // fill StrategyOutput::rounds
};

struct SpeculationPlan {
  const StrategyEntry* strategy = nullptr;
  ModelFacts models;
  // Fields that the strategy does not use keep these defaults.
  TreeShape shape;
  DraftSourceSpec source;
  AcceptSpec accept;
  int32_t verify_tokens = 0;
  int32_t draft_width = 0;
  int32_t draft_depth = 0;
  int32_t extra_draft_steps = 0;
  int32_t children_per_leaf = 0;
  KvViewSpec view;  // kind null: none
  bool shared_noise = true;
  // Nothing but "auto" was asked for: the strategy is the engine's choice, and may become another.
  bool automatic = false;

  // The strategy expects start() next. May be called from any thread.
  std::unique_ptr<Strategy> make_strategy(const StrategyParts& parts) const;
};

// What "auto" stands for on this engine.
struct AutoChoice {
  std::string strategy = "serial_tree";
  int32_t extra_draft_steps = 0;  // extra_draft_steps of `strategy`, if it uses them
  // The source that guesses where the draft model cannot pay; empty: it may pay.
  std::string source_without_draft = {};
};

// Checks `options` and fills in what they leave open. kInvalidArgument names the option, what was
// found and what is accepted: a name or number that no strategy takes, an option that the strategy
// named does not use or does not take with the others, a draft model that is not there.
//
// "auto" is `choice.strategy`, or serial_tree where that does not take the options; options that it
// does not use are ignored once their names and ranges are checked. Where the draft model cannot
// pay and no source is asked for, `choice.source_without_draft` guesses; options that need a tree
// of a set size or the model's draws then give plain decoding.
Result<std::shared_ptr<const SpeculationPlan>> resolve_speculation(
    const SpeculationOptions& options, const ModelFacts& models = {},
    const AutoChoice& choice = {});

// The plan for a request whose draft model is faulty: the same strategy where another source can
// guess, otherwise plain decoding. A plan that does not use the model stays as it is.
SpeculationPlan without_draft_model(const SpeculationPlan& plan);

// For StrategyEntry::check: whether this model can read the plan's view, if there is one.
Status check_view(const SpeculationPlan& plan, Role role);

// "serial_tree, shape best, source model+suffix, accept match": the options that the plan uses,
// without numbers. For messages and tests; plans that differ in more than numbers have different
// descriptions.
std::string describe(const SpeculationPlan& plan);

}  // namespace forerun
