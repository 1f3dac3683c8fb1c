// The built-in functions: range, namespace, dict, raise_exception and strftime_now.
#include <array>
#include <ctime>
#include <utility>

#include "base/status_macros.h"
#include "text/jinja/runtime.h"

namespace forerun::text::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;

// Implements dict(...) of a mapping or of pairs, and of named arguments.
Result<Value> make_mapping(const Arguments& args, Runtime& runtime) {
  if (args.positional.size() > 1) {
    return Status(StatusCode::kInvalidArgument, "dict(): accepted: a mapping or pairs, and names");
  }
  Dict members;
  const auto set = [&](const Value& key, const Value& value) -> Status {
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1 + members.size() / 8));
    if (!key.is_hashable()) return bad_value("key", key, "what does not change");
    for (auto& member : members) {
      if (!equal(member.first, key)) continue;
      member.second = value;
      return {};
    }
    members.emplace_back(key, value);
    return {};
  };
  if (!args.positional.empty() && args.positional[0].is_dict()) {
    members = args.positional[0].as_dict();
  } else if (!args.positional.empty()) {
    FORERUN_ASSIGN_OR_RETURN(const List pairs, iterate(args.positional[0], runtime));
    for (const Value& pair : pairs) {
      FORERUN_ASSIGN_OR_RETURN(const List parts, iterate(pair, runtime));
      if (parts.size() != 2) return bad_value("dict()", pair, "pairs");
      FORERUN_RETURN_IF_ERROR(set(parts[0], parts[1]));
    }
  }
  for (const auto& [name, value] : args.named) {
    FORERUN_RETURN_IF_ERROR(set(Value::string(name), value));
  }
  return Value::dict(std::move(members));
}

}  // namespace

Names built_in_functions() {
  static constexpr std::pair<const char*, Function> kFunctions[] = {
      {"range", Function::kRange},
      {"namespace", Function::kNamespace},
      {"dict", Function::kDict},
      {"raise_exception", Function::kRaiseException},
      {"strftime_now", Function::kStrftimeNow}};
  Names functions;
  for (const auto& [name, function] : kFunctions) {
    functions.emplace_back(name, Value::function(function));
  }
  return functions;
}

Result<Value> call_function(Function which, const Arguments& args, Runtime& runtime) {
  switch (which) {
    case Function::kRange: {
      std::array<int64_t, 3> bounds = {0, 0, 1};
      const size_t count = args.positional.size();
      for (size_t i = 0; i < count && i < bounds.size(); ++i) {
        if (args.positional[i].kind() != Kind::kInt) {
          return Status(StatusCode::kInvalidArgument, "range(): accepted: integers");
        }
        bounds[count == 1 ? 1 : i] = args.positional[i].as_int();
      }
      if (count < 1 || count > 3 || bounds[2] == 0) {
        return Status(StatusCode::kInvalidArgument,
                      "range(): accepted: (stop), (start, stop, step)");
      }
      List out;
      int64_t at = bounds[0];
      while (bounds[2] > 0 ? at < bounds[1] : at > bounds[1]) {
        if (static_cast<int64_t>(out.size()) >= kMaxRange) {
          return Status(StatusCode::kResourceExhausted, "range(): more than 100000 elements");
        }
        out.push_back(Value::integer(at));
        if (__builtin_add_overflow(at, bounds[2], &at)) break;
      }
      FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1 + 4 * out.size()));
      std::string shown = "range(" + std::to_string(bounds[0]) + ", " + std::to_string(bounds[1]);
      if (bounds[2] != 1) shown += ", " + std::to_string(bounds[2]);
      return Value::range(std::move(out), shown + ")");
    }
    case Function::kNamespace: {
      Value space = Value::new_namespace();
      FORERUN_ASSIGN_OR_RETURN(const Value members, make_mapping(args, runtime));
      for (const auto& [name, member] : members.as_dict()) {
        FORERUN_RETURN_IF_ERROR(space.set_member(to_text(name), member));
      }
      return space;
    }
    case Function::kDict:
      return make_mapping(args, runtime);
    case Function::kRaiseException:
      return Status(StatusCode::kInvalidArgument,
                    "the template refuses: " +
                        (args.positional.empty() ? std::string() : to_text(args.positional[0])));
    case Function::kStrftimeNow: {
      const Value* format = args.get(0, "format");
      if (!format || !format->is_string() || format->as_string().size() > 256) {
        const std::string found =
            !format ? "no format"
            : format->is_string()
                ? "a format of " + std::to_string(format->as_string().size()) + " bytes"
                : std::string(format->kind_name());
        return Status(
            StatusCode::kInvalidArgument,
            "strftime_now(): found " + found + "; accepted: a format of at most 256 bytes");
      }
      std::array<char, 8192> buffer;
      const size_t len =
          std::strftime(buffer.data(), buffer.size(), format->as_string().c_str(), &runtime.now);
      return make_text(std::string(buffer.data(), len), runtime);
    }
  }
  return Value();
}

}  // namespace forerun::text::jinja
