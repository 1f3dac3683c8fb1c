// The state of one render, and the operations on values that templates call by an operator or by
// name.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "forerun/status.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace forerun::text::jinja {

// Limits a render's work and memory: a step is an evaluated node, a list element or 64 bytes of
// text. Real templates stay below a thousand steps per message.
class Budget {
 public:
  static constexpr uint64_t kMaxSteps = 10'000'000;
  static constexpr size_t kMaxTextBytes = size_t{64} << 20;

  Status spend(uint64_t steps) {
    used_ += steps;
    if (used_ <= kMaxSteps) return {};
    return Status(StatusCode::kResourceExhausted,
                  "template does not end within " + std::to_string(kMaxSteps) + " steps");
  }
  Status spend_text(size_t bytes) {
    if (bytes > kMaxTextBytes) {
      return Status(StatusCode::kResourceExhausted, "template made a text of more than 64 MiB");
    }
    return spend(1 + bytes / 64);
  }

 private:
  uint64_t used_ = 0;
};

// Keeps no reference. Thread rules: one thread.
struct Runtime {
  Budget budget;
  std::tm now{};       // result of strftime_now
  uint32_t depth = 0;  // depth of nested evaluation, including macros
};

// Counts a level of Runtime::depth while it lives.
class DepthGuard {
 public:
  explicit DepthGuard(Runtime& runtime) : depth_(runtime.depth) { ++depth_; }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  Status check() const {
    if (depth_ <= kMaxDepth) return {};
    return Status(StatusCode::kResourceExhausted,
                  "found a template that is nested too deeply; accepted: up to " +
                      std::to_string(kMaxDepth) + " levels");
  }

 private:
  // Each level takes up to some kilobytes of stack in a sanitizer build.
  static constexpr uint32_t kMaxDepth = 500;

  uint32_t& depth_;
};

// Evaluated arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Fails for too many arguments, unknown names, and arguments that are missing or given twice.
  // `parameters`: "a, b, c?"; optional ones end in "?". `what` is the callee's name in messages.
  Status check(const std::string& what, std::string_view parameters) const;

  // Returns the argument at `index` or called `name`; null if not given.
  const Value* get(size_t index, std::string_view name) const {
    if (index < positional.size()) return &positional[index];
    for (const auto& argument : named) {
      if (argument.first == name) return &argument.second;
    }
    return nullptr;
  }
};

// Returns a string charged to the budget; the second overload marks it like `like`.
inline Result<Value> make_text(std::string text, Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(text.size()));
  return Value::string(std::move(text));
}
inline Result<Value> make_text_like(std::string text, const Value& like, Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(text.size()));
  return Value::string_like(std::move(text), like);
}
// Returns a list charged to the budget.
inline Result<Value> make_list(List items, Runtime& runtime, ListForm form = ListForm::kList) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1 + 4 * items.size()));
  return Value::list(std::move(items), form);
}
inline Result<Value> make_generator(List items, Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1 + 4 * items.size()));
  return Value::generator(std::move(items));
}

// Parts of values and operators (operators.cc).

// Evaluates a.name: a method of that name, else a member; undefined if there is neither.
Result<Value> attribute(const Value& value, const std::string& name);
// Evaluates a[key]: a member or element, else the same as attribute().
Result<Value> item(const Value& value, const Value& key, Runtime& runtime);
// Evaluates a[from:to:step]; null: that bound is left out.
Result<Value> slice(const Value& value, const Value* from, const Value* to, const Value* step,
                    Runtime& runtime);
// Returns the items of a loop over the value: elements, keys or characters; none for undefined.
Result<List> iterate(const Value& value, Runtime& runtime);

// Applies one of + - * / // % ** ~.
Result<Value> binary(const std::string& op, const Value& a, const Value& b, Runtime& runtime);
// Evaluates one of == != < <= > >= in, not in.
Result<bool> relation(const std::string& op, const Value& a, const Value& b);

// Formats, functions, filters, tests and methods, each in the file of that name.

// Returns the string with & < > " ' as entities, marked as escaped; a marked string stays
// unchanged.
Value escaped(const Value& value);

// Python's `text % values`: a tuple's values, a mapping's members, or one value.
Result<Value> percent_format(const Value& text, const Value& values, Runtime& runtime);
// Python's text.format(...).
Result<Value> brace_format(const Value& text, const Arguments& args, Runtime& runtime);

Names built_in_functions();
Result<Value> call_function(Function which, const Arguments& args, Runtime& runtime);

// Fails with kUnsupported for unknown names.
Result<Value> apply_filter(const std::string& name, const Value& value, const Arguments& args,
                           Runtime& runtime);
Result<bool> apply_test(const std::string& name, const Value& value, const Arguments& args,
                        Runtime& runtime);
bool is_known_filter(std::string_view name);

bool has_method(const Value& value, std::string_view name);
Result<Value> call_method(const Value& self, const std::string& name, const Arguments& args,
                          Runtime& runtime);

// Returns a filter's argument as an integer; kInvalidArgument for other kinds.
Result<int64_t> int_argument(const std::string& filter, const Value* given, int64_t fallback);
// Returns kInvalidArgument: `what` found a value of this kind.
Status bad_value(const std::string& what, const Value& found, const std::string& accepted);

// Applies filters of sequences; returns no value if the name is not one of them.
Result<std::optional<Value>> apply_sequence_filter(const std::string& name, const Value& value,
                                                   const Arguments& args, Runtime& runtime);

}  // namespace forerun::text::jinja
