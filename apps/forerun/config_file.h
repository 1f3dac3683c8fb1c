// --config FILE: flags from a TOML file, a section a command.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

namespace forerun::app {

// Strict: a file that is no TOML, a section that is no command, a key that is no flag of it and a
// value of the wrong kind throw CLI::ConfigError, whose message names file and line.
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
