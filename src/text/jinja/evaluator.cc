#include "text/jinja/evaluator.h"

#include <array>
#include <utility>

namespace forerun::text::jinja {
namespace {

// Each level takes up to some kilobytes of stack in a sanitizer build.
constexpr uint32_t kMaxDepth = 500;
constexpr int64_t kMaxRange = 100'000;

Status at_line(const Status& status, uint32_t line) {
  if (status.ok() || status.message().starts_with("line ")) return status;
  return status.with_context("line " + std::to_string(line));
}

}  // namespace

class Evaluator::DepthGuard {
 public:
  explicit DepthGuard(uint32_t& depth) : depth_(depth) { ++depth_; }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  Status check() const {
    if (depth_ <= kMaxDepth) return {};
    return Status(StatusCode::kResourceExhausted,
                  "template nests deeper than " + std::to_string(kMaxDepth) + " levels");
  }

 private:
  uint32_t& depth_;
};

Evaluator::Evaluator(Dict variables, Runtime& runtime)
    : variables_(std::move(variables)), runtime_(runtime), scopes_(1) {
  static constexpr std::pair<const char*, Function> kFunctions[] = {
      {"range", Function::kRange},
      {"namespace", Function::kNamespace},
      {"dict", Function::kDict},
      {"raise_exception", Function::kRaiseException},
      {"strftime_now", Function::kStrftimeNow}};
  for (const auto& function : kFunctions) {
    variables_.emplace_back(function.first, Value::function(function.second));
  }
}

Result<std::string> Evaluator::render(const Body& body) {
  std::string out;
  Flow flow = Flow::kOn;
  FORERUN_RETURN_IF_ERROR(run(body, out, flow));
  return out;
}

Status Evaluator::append(const std::string& text, std::string& out) {
  FORERUN_RETURN_IF_ERROR(runtime_.budget.spend_text(text.size()));
  if (out.size() + text.size() > Budget::kMaxTextBytes) {
    return Status(StatusCode::kResourceExhausted, "template made a text past 64 MiB");
  }
  out += text;
  return {};
}

Status Evaluator::run(const Body& body, std::string& out, Flow& flow) {
  for (const Statement& statement : body) {
    FORERUN_RETURN_IF_ERROR(at_line(run_statement(statement, out, flow), statement.line));
    if (flow != Flow::kOn) break;
  }
  return {};
}

Status Evaluator::run_statement(const Statement& statement, std::string& out, Flow& flow) {
  const DepthGuard guard(depth_);
  FORERUN_RETURN_IF_ERROR(guard.check());
  FORERUN_RETURN_IF_ERROR(runtime_.budget.spend(1));
  switch (statement.kind) {
    case StatementKind::kText:
      return append(statement.text, out);
    case StatementKind::kOutput: {
      FORERUN_ASSIGN_OR_RETURN(const Value value, eval(*statement.expr));
      return append(to_text(value), out);
    }
    case StatementKind::kIf:
      return run_if(statement, out, flow);
    case StatementKind::kFor:
      return run_for(statement, out);
    case StatementKind::kSet:
      return run_set(statement);
    case StatementKind::kSetBlock:
    case StatementKind::kFilter:
      return run_captured(statement, out);
    case StatementKind::kMacro:
      assign(statement.text, Value::macro(&statement));
      return {};
    case StatementKind::kScope:
      return run_scope(statement, out, flow);
    case StatementKind::kBreak:
      flow = Flow::kBreak;
      return {};
    case StatementKind::kContinue:
      flow = Flow::kContinue;
      return {};
  }
  return {};
}

Status Evaluator::run_if(const Statement& statement, std::string& out, Flow& flow) {
  for (const Branch& branch : statement.branches) {
    FORERUN_ASSIGN_OR_RETURN(const Value condition, eval(*branch.condition));
    if (condition.truth()) return run(branch.body, out, flow);
  }
  return run(statement.otherwise, out, flow);
}

Status Evaluator::run_for(const Statement& statement, std::string& out) {
  FORERUN_ASSIGN_OR_RETURN(const Value value, eval(*statement.expr));
  FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime_));
  if (statement.condition) {
    List kept;
    for (Value& element : items) {
      scopes_.emplace_back();
      Status assigned = assign_targets(statement.targets, element);
      Result<Value> condition = assigned.ok() ? eval(*statement.condition) : Value();
      scopes_.pop_back();
      FORERUN_RETURN_IF_ERROR(assigned);
      if (!condition.ok()) return condition.status();
      if (condition->truth()) kept.push_back(std::move(element));
    }
    items = std::move(kept);
  }
  if (!items.empty()) return run_loop(statement, items, out);
  Flow flow = Flow::kOn;
  scopes_.emplace_back();
  const Status status = run(statement.otherwise, out, flow);
  scopes_.pop_back();
  return status;
}

Status Evaluator::run_loop(const Statement& statement, const List& items, std::string& out) {
  auto state = std::make_shared<LoopState>();
  state->items = &items;
  state->depth = ++loop_depth_;
  Status status;
  for (size_t i = 0; status.ok() && i < items.size(); ++i) {
    state->index0 = i;
    scopes_.emplace_back();
    assign("loop", Value::loop(state));
    status = assign_targets(statement.targets, items[i]);
    Flow flow = Flow::kOn;
    if (status.ok()) status = run(statement.body, out, flow);
    scopes_.pop_back();
    if (flow == Flow::kBreak) break;
  }
  --loop_depth_;
  // A loop object that a namespace kept must not look at items that are gone.
  static const List kGone;
  state->items = &kGone;
  state->index0 = 0;
  return status;
}

Status Evaluator::run_set(const Statement& statement) {
  FORERUN_ASSIGN_OR_RETURN(const Value value, eval(*statement.expr));
  return assign_targets(statement.targets, value);
}

Status Evaluator::run_captured(const Statement& statement, std::string& out) {
  std::string inner;
  Flow flow = Flow::kOn;
  scopes_.emplace_back();
  const Status status = run(statement.body, inner, flow);
  scopes_.pop_back();
  FORERUN_RETURN_IF_ERROR(status);
  Value value = Value::string(std::move(inner));
  if (statement.expr) {
    FORERUN_ASSIGN_OR_RETURN(value, eval_filter(*statement.expr, &value));
  }
  if (statement.kind == StatementKind::kFilter) return append(to_text(value), out);
  return assign_target(statement.targets[0], std::move(value));
}

Status Evaluator::run_scope(const Statement& statement, std::string& out, Flow& flow) {
  scopes_.emplace_back();
  const Status status = run(statement.body, out, flow);
  scopes_.pop_back();
  return status;
}

Value Evaluator::lookup(const std::string& name) const {
  const auto find = [&](const Dict& names) -> const Value* {
    for (const auto& entry : names) {
      if (entry.first == name) return &entry.second;
    }
    return nullptr;
  };
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (const Value* found = find(scopes_[i].names)) return *found;
    if (scopes_[i].hides_outer) i = 1;  // on to the template's own scope
  }
  const Value* found = find(variables_);
  return found ? *found : Value::undefined(name);
}

void Evaluator::assign(const std::string& name, Value value) {
  for (auto& entry : scopes_.back().names) {
    if (entry.first == name) {
      entry.second = std::move(value);
      return;
    }
  }
  scopes_.back().names.emplace_back(name, std::move(value));
}

Status Evaluator::assign_target(const Target& target, Value value) {
  if (target.member.empty()) {
    assign(target.name, std::move(value));
    return {};
  }
  Value space = lookup(target.name);
  if (space.kind() != Kind::kNamespace) {
    return Status(StatusCode::kInvalidArgument, "set " + target.name + "." + target.member +
                                                    ": found " + space.kind_name() +
                                                    "; accepted: a namespace");
  }
  return space.set_member(target.member, std::move(value));
}

Status Evaluator::assign_targets(const std::vector<Target>& targets, const Value& value) {
  if (targets.size() == 1) return assign_target(targets[0], value);
  FORERUN_ASSIGN_OR_RETURN(List parts, iterate(value, runtime_));
  if (parts.size() != targets.size()) {
    return Status(StatusCode::kInvalidArgument,
                  "found " + std::to_string(parts.size()) +
                      " values; accepted: " + std::to_string(targets.size()));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    FORERUN_RETURN_IF_ERROR(assign_target(targets[i], std::move(parts[i])));
  }
  return {};
}

Result<Value> Evaluator::call_macro(const Statement& macro, const Arguments& args) {
  const DepthGuard guard(depth_);
  FORERUN_RETURN_IF_ERROR(guard.check());
  if (args.positional.size() > macro.targets.size()) {
    return Status(StatusCode::kInvalidArgument,
                  macro.text + "(): found " + std::to_string(args.positional.size()) +
                      " arguments; accepted: at most " + std::to_string(macro.targets.size()));
  }
  scopes_.emplace_back();
  scopes_.back().hides_outer = true;
  Status status;
  for (size_t i = 0; status.ok() && i < macro.targets.size(); ++i) {
    const std::string& name = macro.targets[i].name;
    if (const Value* given = args.get(i, name)) {
      assign(name, *given);
    } else if (macro.defaults[i]) {
      Result<Value> fallback = eval(*macro.defaults[i]);
      status = fallback.status();
      if (status.ok()) assign(name, std::move(fallback).value());
    } else {
      assign(name, Value::undefined(name));
    }
  }
  std::string out;
  Flow flow = Flow::kOn;
  if (status.ok()) status = run(macro.body, out, flow);
  scopes_.pop_back();
  FORERUN_RETURN_IF_ERROR(status);
  return make_text(std::move(out), runtime_);
}

Result<Value> Evaluator::call_function(Function which, const Arguments& args) {
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
      return make_list(std::move(out), runtime_);
    }
    case Function::kNamespace: {
      Value space = Value::new_namespace();
      for (const auto& argument : args.named) {
        FORERUN_RETURN_IF_ERROR(space.set_member(argument.first, argument.second));
      }
      return space;
    }
    case Function::kDict:
      return Value::dict(args.named);
    case Function::kRaiseException:
      return Status(StatusCode::kInvalidArgument,
                    "the template refuses: " +
                        (args.positional.empty() ? std::string() : to_text(args.positional[0])));
    case Function::kStrftimeNow: {
      const Value* format = args.get(0, "format");
      if (!format || !format->is_string() || format->as_string().size() > 256) {
        return Status(StatusCode::kInvalidArgument,
                      "strftime_now(): accepted: a format of at most 256 bytes");
      }
      std::array<char, 8192> buffer;
      const size_t len =
          std::strftime(buffer.data(), buffer.size(), format->as_string().c_str(), &runtime_.now);
      return make_text(std::string(buffer.data(), len), runtime_);
    }
  }
  return Value();
}

}  // namespace forerun::text::jinja
