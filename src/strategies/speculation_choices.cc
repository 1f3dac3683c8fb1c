#include <string>
#include <utility>
#include <vector>

#include "forerun/speculation_options.h"
#include "strategies/accept_rule_table.h"
#include "strategies/strategy_table.h"

namespace forerun {

std::vector<OptionChoice> strategy_choices() {
  std::vector<OptionChoice> choices = {{"auto", "chosen by measurements on this machine"}};
  for (const StrategyEntry& entry : strategy_table()) choices.push_back({entry.name, entry.help});
  return choices;
}

std::vector<OptionChoice> draft_source_choices() {
  std::vector<OptionChoice> choices;
  for (const DraftSourceEntry& entry : draft_source_table()) {
    choices.push_back({entry.name, entry.help});
  }
  return choices;
}

std::vector<OptionChoice> kv_view_choices() {
  std::vector<OptionChoice> choices;
  for (const KvViewEntry& entry : view_table()) choices.push_back({entry.name, entry.help});
  return choices;
}

std::vector<OptionChoice> tree_shape_choices() {
  std::vector<OptionChoice> choices;
  for (const TreeShapeEntry& entry : tree_shape_table()) {
    choices.push_back({entry.name, entry.help});
  }
  return choices;
}

std::vector<OptionChoice> accept_rule_choices() {
  std::vector<OptionChoice> choices;
  for (const AcceptRuleEntry& entry : accept_rule_table()) {
    choices.push_back({entry.name, entry.help});
  }
  return choices;
}

SpeculationOptions options_for(const std::string& strategy, SpeculationOptions options) {
  const StrategyEntry* const entry = find_strategy(strategy);
  if (entry != nullptr) options = without_unused(*entry, options);
  options.strategy = strategy;
  return options;
}

}  // namespace forerun
