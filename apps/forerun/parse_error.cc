#include "parse_error.h"

#include <CLI/CLI.hpp>

#include "nearest.h"

namespace forerun::app {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string meant(const std::string& nearest) {
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

// Returns the words for a CLI11 type name, as help shows it.
std::string in_words(const std::string& type) {
  if (type == "INT") return "a whole number";
  if (type == "UINT") return "a whole number, 0 or more";
  if (type == "FLOAT") return "a number";
  return type.empty() ? "no value" : type;
}

// Returns the part of an argument that names a flag: --max-tokens of --max-tokens=3, -n of -n3.
std::string flag_of(const std::string& argument) {
  if (argument.starts_with("--")) return argument.substr(0, argument.find('='));
  return argument.substr(0, 2);
}

std::string describe_extra(const CLI::App& app, const CLI::App& command,
                           const std::string& argument) {
  if (argument.size() < 2 || argument.front() != '-') {
    return "found '" + argument + "', which belongs to no flag";
  }
  std::vector<std::string> names = flag_names(command);
  const std::vector<std::string> general = flag_names(app);
  names.insert(names.end(), general.begin(), general.end());
  const std::string flag = flag_of(argument);
  return "there is no flag " + flag + meant(flag.size() > 2 ? nearest_name(flag, names) : "");
}

// Describes "Could not convert: --max-tokens = abc" with the accepted type.
std::string describe_conversion(const CLI::App& command, const std::string& what) {
  const size_t colon = what.find(": ");
  const size_t equals = what.find(" = ", colon);
  if (colon == what.npos || equals == what.npos) return what;
  const std::string name = what.substr(colon + 2, equals - colon - 2);
  const CLI::Option* option = command.get_option_no_throw(name);
  return name + ": found '" + what.substr(equals + 3) +
         "'; accepted: " + in_words(option == nullptr ? "" : option->get_type_name());
}

// Describes "--seed: At Most 1 required but received 2" and "--json: 1 required TEXT missing" in
// words.
std::string describe_count(const std::string& what) {
  const size_t colon = what.find(": ");
  if (colon == what.npos) return what;
  const std::string name = what.substr(0, colon);
  const std::string most = "At Most 1 required but received ";
  if (what.compare(colon + 2, most.size(), most) == 0) {
    return name + ": found " + what.substr(colon + 2 + most.size()) + " times; accepted: once";
  }
  if (what.ends_with(" missing")) return name + ": its value is missing";
  return what;
}

}  // namespace

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ConfigError*>(&error) != nullptr) return error.what();
  if (dynamic_cast<const CLI::FileError*>(&error) != nullptr) {
    const CLI::results_t files = app.get_config_ptr()->results();
    return "--config: '" + joined(files) + "' cannot be read; accepted: a TOML file";
  }
  const std::vector<CLI::App*> given = app.get_subcommands();
  const std::vector<std::string> left = app.remaining(true);
  if (given.empty()) {
    const std::string commands = "accepted: " + joined(command_names(app));
    if (left.empty()) return "a command is missing; " + commands;
    if (left.front().starts_with("-")) return describe_extra(app, app, left.front());
    const std::string nearest = nearest_name(left.front(), command_names(app));
    return "there is no command '" + left.front() + "'" +
           (nearest.empty() ? "; " + commands : meant(nearest));
  }
  const CLI::App& command = *given.front();
  std::string line = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !left.empty()) {
    line = describe_extra(app, command, left.front());
  } else if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    line = describe_conversion(command, line);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    line = describe_count(line);
  }
  for (char& c : line) c = c == '\n' ? ' ' : c;
  return line + "; forerun " + command.get_name() + " --help lists what is accepted";
}

}  // namespace forerun::app
