// The strategies there are, by name: the one place where a strategy is added. Accepted names,
// messages, help texts and what the lossless tests run are derived from it.
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
  // Which options it uses where the tree is to have this shape, and whether a source has been asked
  // for. Others are refused if they are set.
  OptionSet (*uses)(const TreeShape& shape, bool has_source);
  // Fills in what the options left to the strategy (a source, which is empty then) and refuses what
  // it does not take. Names, ranges, use and the draft model are checked before and after.
  Status (*check)(SpeculationPlan& plan);
  // From a plan that check() has accepted; cannot fail. Costs come by on_costs() right after.
  std::unique_ptr<Strategy> (*make)(const SpeculationPlan& plan, const StrategyParts& parts);
};

std::span<const StrategyEntry> strategy_table();
const StrategyEntry* find_strategy(const std::string& name);  // null: there is none
// For messages: "autoregressive, serial_tree".
std::string strategy_names(bool with_draft_model = true);

// `options` without those that the strategy does not use with their shape and source. Ill-spelt
// shapes count as adaptive.
SpeculationOptions without_unused(const StrategyEntry& strategy, SpeculationOptions options);

// For StrategyEntry::check: `with_draft` where there is a draft model, else "suffix", unless a
// source has been asked for.
void set_default_source(SpeculationPlan& plan, const char* with_draft);
// For StrategyEntry::check of those that send no level trees.
Status refuse_levels(const SpeculationPlan& plan);

}  // namespace forerun
