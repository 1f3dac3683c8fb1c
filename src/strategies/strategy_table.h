// All strategies, by name: the one place where a strategy is added. Accepted names, messages, help
// texts and the cases of the lossless tests are derived from this table.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "strategies/option_set.h"
#include "strategies/speculation_plan.h"
#include "strategies/strategy.h"

namespace forerun {

struct StrategyEntry {
  const char* name;
  const char* help;  // one line: what a round is
  bool needs_draft_model;
  bool takes_head;  // the draft model may be a trained head (ModelFacts::draft_is_head)
  // Which options the strategy uses for a tree of this shape, with or without a source asked for.
  // Other options are refused if they are set.
  OptionSet (*uses)(const TreeShape& shape, bool has_source);
  // Fills in what the options left open (an empty source) and refuses what the strategy does not
  // take. Names, ranges, unused options and the need for a draft model are checked elsewhere.
  Status (*check)(SpeculationPlan& plan);
  // Makes the strategy of a plan that check() has accepted; cannot fail. Costs come by on_costs()
  // right after.
  std::unique_ptr<Strategy> (*make)(const SpeculationPlan& plan, const StrategyParts& parts);
};

std::span<const StrategyEntry> strategy_table();
const StrategyEntry* find_strategy(const std::string& name);  // null: there is none
// For messages: "autoregressive, serial_tree".
std::string strategy_names(bool with_draft_model = true);
// Names of the strategies in which a trained head may guess.
std::string head_strategy_names();

// `options` without the ones that the strategy does not use for their shape and source. Misspelt
// shapes count as adaptive.
SpeculationOptions without_unused(const StrategyEntry& strategy, SpeculationOptions options);

// For StrategyEntry::check: `with_draft` where there is a draft model, else "suffix", unless a
// source has been asked for.
void set_default_source(SpeculationPlan& plan, const char* with_draft);
// For StrategyEntry::check of strategies that do not support shape `levels`.
Status refuse_levels(const SpeculationPlan& plan);

}  // namespace forerun
