// The speculation of a request: its options, resolved and checked once, at submission. A plan is
// immutable and stays with the request; a strategy is made from it when the request starts, and
// again after a preemption, which cannot fail. Requests without options share the engine's plan.
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
  // Numbers of token ids that the models know; 0: no limit. Guesses beyond the target's are
  // dropped. A token that the draft does not know is fed to the draft as its last known id: its
  // guesses get worse for a while, the output does not change.
  int32_t target_vocab = 0;
  int32_t draft_vocab = 0;
  int32_t max_context = 0;  // tokens; 0: no limit
  int32_t tree_tokens = 0;  // rows that a tree may have in the target's KV; 0: no limit
  // For each role, whether the model has layers that see only a window of the last tokens.
  std::array<bool, kNumRoles> has_window = {};
  // For each role, whether its devices select and gather KV (Decoder::selects_kv()).
  std::array<bool, kNumRoles> selects_kv = {true, true};
  // For each role, whether its devices also find KV by quantized keys (Decoder::quantizes_keys()).
  std::array<bool, kNumRoles> quantizes_keys = {true, true};
  std::array<int32_t, kNumRoles> head_dim = {64, 64};  // one per role
};

// The inputs of a strategy besides its plan.
struct StrategyParts {
  // The acceptance statistics that requests share; null: not shared. All strategies that share an
  // object run on one thread.
  std::shared_ptr<SharedAcceptance> shared;
  // The argument of Strategy::on_costs(). If nothing was measured: ratios typical of a draft that
  // costs a fifth of its target.
  CostTable costs;
  bool record_rounds = false;  // fills StrategyOutput::rounds
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
  KvViewSpec view;  // kind null: no view
  bool shared_noise = true;
  // Only "auto" was asked for: the strategy is the engine's choice and may change.
  bool automatic = false;

  // Makes a strategy, which expects start() next. May be called from any thread.
  std::unique_ptr<Strategy> make_strategy(const StrategyParts& parts) const;
};

// The plan that "auto" resolves to on this engine.
struct AutoChoice {
  std::string strategy = "serial_tree";
  int32_t extra_draft_steps = 0;  // extra_draft_steps of `strategy`, if it uses them
  // The source that guesses if the draft model cannot pay; empty: it may pay.
  std::string source_without_draft = {};
};

// Checks `options` and fills in the open ones. Fails with kInvalidArgument; the message names the
// option, the value found and the accepted values. Refused are names and numbers that no strategy
// accepts, options that the named strategy does not use or does not accept together, and a missing
// draft model.
//
// "auto" resolves to `choice.strategy`, or to serial_tree if that strategy does not accept the
// options; options that the result does not use are ignored once their names and ranges are
// checked. If the draft model cannot pay and no source is asked for, `choice.source_without_draft`
// guesses; options that need a tree of a fixed size or the model's samples then give plain
// decoding.
Result<std::shared_ptr<const SpeculationPlan>> resolve_speculation(
    const SpeculationOptions& options, const ModelFacts& models = {},
    const AutoChoice& choice = {});

// Returns the plan for a request with a faulty draft model: the same strategy if another source can
// guess, otherwise plain decoding. A plan that does not use the model stays as it is.
SpeculationPlan without_draft_model(const SpeculationPlan& plan);

// Fails if the role's model cannot draft through the plan's view: because of the view's budget, an
// accept rule that is not exact, the model's devices, or a sliding window. For
// StrategyEntry::check.
Status check_view(const SpeculationPlan& plan, Role role);

// Returns a text such as "serial_tree, shape best, source model+suffix, accept match": the options
// that the plan uses, without numbers. For messages and tests; plans that differ in more than
// numbers have different descriptions.
std::string describe(const SpeculationPlan& plan);

}  // namespace forerun
