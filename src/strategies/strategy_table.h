// The table of all strategies, by name. A new strategy is added only here: accepted names,
// messages, help texts and the cases of the lossless tests are derived from this table.
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
  const char* help;  // one line: the steps of a round
  bool needs_draft_model;
  bool takes_head;  // the draft model may be a trained head (ModelFacts::draft_is_head)
  // Returns the options that the strategy uses for a tree of this shape, with or without a
  // requested source. Other options are refused if they are set.
  OptionSet (*uses)(const TreeShape& shape, bool has_source);
  // Fills in the open options (an empty source) and refuses values that the strategy does not
  // support. Names, ranges, unused options and the need for a draft model are checked elsewhere.
  Status (*check)(SpeculationPlan& plan);
  // Makes the strategy of a plan that check() has accepted; cannot fail. The caller passes costs by
  // on_costs() right after.
  std::unique_ptr<Strategy> (*make)(const SpeculationPlan& plan, const StrategyParts& parts);
};

std::span<const StrategyEntry> strategy_table();
const StrategyEntry* find_strategy(const std::string& name);  // null: there is none
// Returns a list for messages: "autoregressive, serial_tree".
std::string strategy_names(bool with_draft_model = true);
// Returns the names of the strategies that accept a trained head.
std::string head_strategy_names();

// Returns `options` without those that the strategy does not use for their shape and source.
// Misspelt shapes count as adaptive.
SpeculationOptions without_unused(const StrategyEntry& strategy, SpeculationOptions options);

// Sets the default source `with_draft` if there is a draft model, else "suffix", unless a source
// has been asked for. For StrategyEntry::check.
void set_default_source(SpeculationPlan& plan, const char* with_draft);
// Refuses shape `levels`. For StrategyEntry::check of strategies that do not support it.
Status refuse_levels(const SpeculationPlan& plan);

}  // namespace forerun
