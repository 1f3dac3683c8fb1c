// The command line as data, read from CLI11's tables, for shell completion and the man page.
#pragma once

#include <string>
#include <vector>

#include "cli11_names.h"

namespace forerun::app {

struct FlagEntry {
  std::vector<std::string> names;  // "-m", "--model": short names first
  std::string value;               // "TEXT", as help shows it; empty: takes no value
  std::string help;
  std::string group;
  std::vector<std::string> choices;  // values that completion offers; empty: files
};

struct CommandEntry {
  std::string name;
  std::string help;
  std::string footer;  // examples
  std::vector<FlagEntry> flags;
};

// Returns the flags of `command` itself, including --help, without those of its subcommands, in the
// order of the help.
std::vector<FlagEntry> flags_of(const CLI::App& command);
// Returns all commands of `app`.
std::vector<CommandEntry> commands_of(const CLI::App& app);

}  // namespace forerun::app
