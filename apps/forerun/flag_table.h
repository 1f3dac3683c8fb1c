// The command line as data, read from CLI11's tables, for shell completion and the man page.
#pragma once

#include <string>
#include <vector>

#include "cli11_names.h"

namespace forerun::app {

struct FlagEntry {
  std::vector<std::string> names;  // "-m", "--model": the short ones first
  std::string value;               // "TEXT", as help shows it; empty: it takes none
  std::string help;
  std::string group;
  std::vector<std::string> choices;  // what completion offers; empty: files
};

struct CommandEntry {
  std::string name;
  std::string help;
  std::string footer;  // examples
  std::vector<FlagEntry> flags;
};

// The flags of `command` itself, --help included, without those of its subcommands, in the order
// in which help lists them.
std::vector<FlagEntry> flags_of(const CLI::App& command);
// All commands of `app`.
std::vector<CommandEntry> commands_of(const CLI::App& app);

}  // namespace forerun::app
