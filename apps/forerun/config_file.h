// --config FILE: reads flags from a TOML file with a section for each command.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

namespace forerun::app {

// A strict reader: throws CLI::ConfigError with file and line in its message if the file is not
// TOML, a section is not a command, a key is not a flag of the command, or a value has the wrong
// kind.
class TomlConfig : public CLI::Config {
 public:
  // `app` must outlive the object.
  explicit TomlConfig(const CLI::App& app) : app_(app) {}
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override;
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

 private:
  const CLI::App& app_;
};

}  // namespace forerun::app
