#include "strategies/strategy_table.h"

#include <utility>

#include "strategies/autoregressive.h"
#include "strategies/parallel_tree.h"
#include "strategies/pipelined.h"
#include "strategies/serial_tree.h"
#include "strategies/sparse_self.h"

namespace forerun {
namespace {

template <class Policy>
constexpr StrategyEntry entry(const char* name, const char* help, bool needs_draft_model,
                              bool takes_head) {
  return {name, help, needs_draft_model, takes_head, Policy::uses, Policy::check, Policy::make};
}

constexpr StrategyEntry kStrategies[] = {
    entry<Autoregressive>("autoregressive", "plain decoding, a token a Step", false, false),
    entry<SerialTree>("serial_tree", "drafting a tree, then verifying it", false, true),
    entry<SparseSelf>(
        "sparse_self",
        "the target drafts through a view of its own KV, by itself or checking what a "
        "source guesses, then verifies",
        false, false),
    entry<ParallelTree>("parallel_tree",
                        "drafting and verifying at the same time; pays with draft devices", true,
                        false),
    entry<Pipelined>("pipelined", "a tree fills the stages of a pipeline; pays with --stages",
                     false, false),
};

}  // namespace

std::span<const StrategyEntry> strategy_table() { return kStrategies; }

const StrategyEntry* find_strategy(const std::string& name) {
  for (const StrategyEntry& strategy : kStrategies) {
    if (name == strategy.name) return &strategy;
  }
  return nullptr;
}

std::string strategy_names(bool with_draft_model) {
  std::string names;
  for (const StrategyEntry& strategy : kStrategies) {
    if (strategy.needs_draft_model && !with_draft_model) continue;
    names += (names.empty() ? "" : ", ") + std::string(strategy.name);
  }
  return names;
}

std::string head_strategy_names() {
  std::string names;
  for (const StrategyEntry& strategy : kStrategies) {
    if (strategy.takes_head) names += (names.empty() ? "" : ", ") + std::string(strategy.name);
  }
  return names;
}

SpeculationOptions without_unused(const StrategyEntry& strategy, SpeculationOptions options) {
  const auto shape = parse_tree_shape(options.shape);
  const OptionSet used = strategy.uses(shape.ok() ? *shape : TreeShape{}, !options.source.empty());
  for (int32_t idx = 0; idx < kNumSpeculationOptions; ++idx) {
    const auto option = static_cast<SpeculationOption>(idx);
    if (!used.has(option)) clear_option(options, option);
  }
  return options;
}

void set_default_source(SpeculationPlan& plan, const char* with_draft) {
  if (!plan.source.empty()) return;
  const char* const name = plan.models.has_draft_model ? with_draft : "suffix";
  plan.source = parse_draft_source(name).value();
}

Status refuse_levels(const SpeculationPlan& plan) {
  if (plan.shape.kind != TreeShape::Kind::kLevels) return Status();
  return Status(
      StatusCode::kInvalidArgument,
      "shape: found 'levels' with strategy " + std::string(plan.strategy->name) +
          ", which verifies a whole tree at once; accepted with this shape: strategy pipelined");
}

}  // namespace forerun
