#include "config_file.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <charconv>
#include <optional>

#include "nearest.h"
#include "parse_error.h"

namespace forerun::app {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

class Reader {
 public:
  Reader(const CLI::App& app, std::string path) : app_(app), path_(std::move(path)) {}

  std::vector<CLI::ConfigItem> read(std::istream& in) {
    std::string text(kMaxBytes + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(in.gcount()));
    // Opening a directory succeeds, but reading it fails.
    if (in.bad()) refuse("cannot be read; accepted: a TOML file");
    if (text.size() > kMaxBytes) refuse("holds more than 1 MiB; accepted: a smaller TOML file");
    const toml::parse_result parsed = toml::parse(text, path_);
    if (!parsed) {
      refuse(parsed.error().source(), std::string(parsed.error().description()) +
                                          "; accepted: TOML, such as model = \"DIR\"");
    }
    for (const auto& [key, node] : parsed.table()) {
      if (node.is_table()) {
        read_section(std::string(key.str()), key.source(), *node.as_table());
      } else {
        add(app_, {}, key, node);
      }
    }
    return std::move(items_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw CLI::ConfigError("--config: " + path_ + ": " + why);
  }
  [[noreturn]] void refuse(const toml::source_region& where, const std::string& why) const {
    throw CLI::ConfigError("--config: " + path_ + ":" + std::to_string(where.begin.line) + ":" +
                           std::to_string(where.begin.column) + ": " + why);
  }

  static std::string meant(const std::string& nearest, const std::string& otherwise) {
    return nearest.empty() ? otherwise : "; did you mean " + nearest + "?";
  }

  void read_section(const std::string& name, const toml::source_region& where,
                    const toml::table& section) {
    const std::vector<std::string> commands = command_names(app_);
    if (std::find(commands.begin(), commands.end(), name) == commands.end()) {
      std::string all;
      for (const std::string& command : commands) all += (all.empty() ? "" : ", ") + command;
      const std::string nearest = nearest_name(name, commands);
      refuse(where, "there is no section [" + name + "]" +
                        meant(nearest.empty() ? "" : "[" + nearest + "]",
                              "; accepted: the commands " + all));
    }
    const CLI::App& command = *app_.get_subcommand(name);
    for (const auto& [key, node] : section) add(command, {name}, key, node);
  }

  void add(const CLI::App& command, std::vector<std::string> parents, const toml::key& key,
           const toml::node& node) {
    const std::string name(key.str());
    const CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option == nullptr || !option->get_configurable()) {
      std::vector<std::string> names = flag_names(command);
      for (std::string& each : names) each.erase(0, 2);
      const std::string of = parents.empty() ? "forerun" : "forerun " + parents.front();
      refuse(key.source(),
             of + " has no flag '" + name + "'" +
                 meant(nearest_name(name, names), "; " + of + " --help lists what is accepted"));
    }
    CLI::ConfigItem item;
    item.parents = std::move(parents);
    item.name = name;
    const bool is_flag = option->get_items_expected_max() == 0;
    if (const toml::array* list = node.as_array(); list != nullptr && !is_flag) {
      for (const toml::node& each : *list) item.inputs.push_back(value_of(name, each, is_flag));
      if (item.inputs.empty()) return;
    } else {
      item.inputs.push_back(value_of(name, node, is_flag));
    }
    items_.push_back(std::move(item));
  }

  std::string value_of(const std::string& name, const toml::node& node, bool is_flag) const {
    if (const auto truth = node.as_boolean(); truth != nullptr && is_flag) {
      return truth->get() ? "true" : "false";
    }
    if (is_flag)
      refuse(node.source(), "'" + name + "': found a value for a flag; accepted: true or false");
    if (const auto* text = node.as_string()) return text->get();
    char digits[32];
    if (const auto* whole = node.as_integer()) {
      return {digits, std::to_chars(digits, digits + sizeof digits, whole->get()).ptr};
    }
    if (const auto* number = node.as_floating_point()) {
      return {digits, std::to_chars(digits, digits + sizeof digits, number->get()).ptr};
    }
    refuse(node.source(), "'" + name +
                              "': found neither text nor number; accepted: a string, a number "
                              "or, where the flag may repeat, a list of them");
  }

  const CLI::App& app_;
  const std::string path_;
  std::vector<CLI::ConfigItem> items_;
};

}  // namespace

std::vector<CLI::ConfigItem> TomlConfig::from_config(std::istream& in) const {
  const std::vector<std::string> paths = app_.get_config_ptr()->results();
  return Reader(app_, paths.empty() ? "" : paths.back()).read(in);
}

}  // namespace forerun::app
