#include <algorithm>
#include <set>

#include "text/jinja/builtins.h"
#include "text/jinja/runtime.h"
#include "text/jinja/strings.h"

namespace forerun::text::jinja {

Status Arguments::check(const std::string& what, std::string_view parameters) const {
  const auto refused = [&](const std::string& found) {
    return Status(StatusCode::kInvalidArgument,
                  what + ": found " + found + "; accepted: (" + std::string(parameters) + ")");
  };
  std::vector<std::string> names;
  if (!parameters.empty()) names = split(parameters, std::string(", "), -1, false);
  if (positional.size() > names.size()) {
    return refused(std::to_string(positional.size()) + " arguments");
  }
  std::set<std::string_view> given;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool optional = names[i].ends_with('?');
    if (optional) names[i].pop_back();
    const bool is_named = std::any_of(named.begin(), named.end(), [&](const auto& argument) {
      return argument.first == names[i];
    });
    if (is_named && i < positional.size()) return refused(names[i] + " twice");
    if (!is_named && i >= positional.size() && !optional) return refused("no " + names[i]);
    given.insert(names[i]);
  }
  for (const auto& argument : named) {
    if (!given.contains(argument.first)) return refused(argument.first + "=");
  }
  return {};
}

Status bad_value(const std::string& what, const Value& found, const std::string& accepted) {
  return Status(StatusCode::kInvalidArgument,
                what + ": found " + found.kind_name() + "; accepted: " + accepted);
}

Result<int64_t> int_argument(const std::string& filter, const Value* given, int64_t fallback) {
  if (!given) return fallback;
  if (given->kind() != Kind::kInt && given->kind() != Kind::kBool) {
    return bad_value(filter, *given, "an integer");
  }
  return given->as_int();
}

}  // namespace forerun::text::jinja
