// What one render shares between evaluator, filters, tests and methods.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "forerun/status.h"
#include "text/jinja/value.h"

namespace forerun::text::jinja {

// Bounds a render's work and memory: a step is an evaluated node, a list element or 64 bytes of
// text. Real templates stay below a thousand steps a message.
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
      return Status(StatusCode::kResourceExhausted, "template made a text past 64 MiB");
    }
    return spend(1 + bytes / 64);
  }

 private:
  uint64_t used_ = 0;
};

struct Runtime {
  Budget budget;
  std::tm now{};  // what strftime_now shows
};

// Evaluated arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Fails for too many arguments, unknown names, and arguments that are missing or given twice.
  // `parameters`: "a, b, c?"; those that may be left out end in "?". `what` is called in messages.
  Status check(const std::string& what, std::string_view parameters) const;

  // The argument at `index` or called `name`; null if not given.
  const Value* get(size_t index, std::string_view name) const {
    if (index < positional.size()) return &positional[index];
    for (const auto& argument : named) {
      if (argument.first == name) return &argument.second;
    }
    return nullptr;
  }
};

// A string charged to the budget; the second one is marked as `like` is.
inline Result<Value> make_text(std::string text, Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(text.size()));
  return Value::string(std::move(text));
}
inline Result<Value> make_text_like(std::string text, const Value& like, Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(text.size()));
  return Value::string_like(std::move(text), like);
}
// A list charged to the budget.
inline Result<Value> make_list(List items, Runtime& runtime, ListForm form = ListForm::kList) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1 + 4 * items.size()));
  return Value::list(std::move(items), form);
}
inline Result<Value> make_generator(List items, Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1 + 4 * items.size()));
  return Value::generator(std::move(items));
}

}  // namespace forerun::text::jinja
