// --config FILE: flags from a TOML file with a section for each command.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

namespace forerun::app {

// Strict: throws CLI::ConfigError, whose message names file and line, for a file that is not TOML,
// a section that is not a command, a key that is not a flag of the command and a value of the wrong
// kind.
class TomlConfig : public CLI::Config {
 public:
  // `app` must outlive it.
  explicit TomlConfig(const CLI::App& app) : app_(app) {}
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override;
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

 private:
  const CLI::App& app_;
};

}  // namespace forerun::app
