#include "flag_table.h"

#include <CLI/CLI.hpp>

#include "convert/output_format.h"
#include "engine/load/numerics_options.h"
#include "forerun/speculation_options.h"

namespace forerun::app {
namespace {

std::vector<std::string> names_of(const std::vector<OptionChoice>& choices) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const OptionChoice& choice : choices) names.push_back(choice.name);
  return names;
}

std::vector<std::string> choices_of(const std::string& flag) {
  if (flag == "--strategy" || flag == "--strategies") return names_of(strategy_choices());
  if (flag == "--source") return names_of(draft_source_choices());
  if (flag == "--shape") return names_of(tree_shape_choices());
  if (flag == "--view" || flag == "--views") return names_of(kv_view_choices());
  if (flag == "--accept") return names_of(accept_rule_choices());
  if (flag == "--weights") return weight_names();
  if (flag == "--draft-weights") return draft_weight_names();
  if (flag == "--activations") return {"bf16", "f32", "int8"};
  if (flag == "--to" || flag == "--embedding" || flag == "--head") return output_format_names();
  if (flag == "--seed") return {"random"};
  return {};
}

}  // namespace

std::vector<FlagEntry> flags_of(const CLI::App& command) {
  std::vector<FlagEntry> flags;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty() || option->get_positional()) continue;
    FlagEntry flag;
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    if (option->get_items_expected_max() > 0) {
      flag.value = option->get_type_name().empty() ? "VALUE" : option->get_type_name();
    }
    flag.help = option->get_description();
    flag.group = option->get_group();
    flag.choices = choices_of(flag.names.back());
    flags.push_back(std::move(flag));
  }
  return flags;
}

std::vector<CommandEntry> commands_of(const CLI::App& app) {
  std::vector<CommandEntry> commands;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_group().empty()) continue;  // for other programs
    commands.push_back({command->get_name(), command->get_description(), command->get_footer(),
                        flags_of(*command)});
  }
  return commands;
}

}  // namespace forerun::app
