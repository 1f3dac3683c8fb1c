// Statements, scopes, macros and the built-in functions.
#include <algorithm>
#include <array>
#include <utility>

#include "base/status_macros.h"
#include "text/jinja/runtime.h"

namespace forerun::text::jinja {
namespace {

Status at_line(const Status& status, uint32_t line) {
  if (status.ok() || status.message().starts_with("line ")) return status;
  return status.with_context("line " + std::to_string(line));
}

constexpr int64_t kMaxRange = 100'000;

}  // namespace

Evaluator::Evaluator(Names variables, Runtime& runtime)
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
    return Status(StatusCode::kResourceExhausted, "template made a text of more than 64 MiB");
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
      assign(statement.text, macro_here(statement));
      return {};
    case StatementKind::kCall:
      return run_call(statement, out);
    case StatementKind::kWith:
      return run_with(statement, out, flow);
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
      open_scope();
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
  open_scope();
  Status status = run(statement.otherwise, out, flow);
  scopes_.pop_back();
  return status;
}

Status Evaluator::run_loop(const Statement& statement, const List& items, std::string& out) {
  auto state = std::make_shared<LoopState>();
  state->items = &items;
  Status status;
  for (size_t i = 0; status.ok() && i < items.size(); ++i) {
    state->index0 = i;
    open_scope();
    assign("loop", Value::loop(state));
    status = assign_targets(statement.targets, items[i]);
    Flow flow = Flow::kOn;
    if (status.ok()) status = run(statement.body, out, flow);
    scopes_.pop_back();
    if (flow == Flow::kBreak) break;
  }
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
  open_scope();
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
  open_scope();
  Status status = run(statement.body, out, flow);
  scopes_.pop_back();
  return status;
}

// {% with a = 1 %}: what is assigned is read in the scope outside.
Status Evaluator::run_with(const Statement& statement, std::string& out, Flow& flow) {
  List values;
  for (const ExprPtr& given : statement.defaults) {
    FORERUN_ASSIGN_OR_RETURN(Value value, eval(*given));
    values.push_back(std::move(value));
  }
  open_scope();
  for (size_t i = 0; i < values.size(); ++i) assign(statement.targets[i].name, values[i]);
  Status status = run(statement.body, out, flow);
  scopes_.pop_back();
  return status;
}

void Evaluator::open_scope(std::optional<size_t> parent) {
  Scope scope;
  scope.id = next_scope_id_++;
  scope.parent = parent ? *parent : scopes_.size() - 1;
  scopes_.push_back(std::move(scope));
}

Value Evaluator::macro_here(const Statement& definition) const {
  return Value::macro({&definition, scopes_.size() - 1, scopes_.back().id});
}

Value Evaluator::lookup(const std::string& name) const {
  const auto find = [&](const Names& names) -> const Value* {
    for (const auto& entry : names) {
      if (entry.first == name) return &entry.second;
    }
    return nullptr;
  };
  for (size_t i = scopes_.size() - 1;; i = scopes_[i].parent) {
    if (const Value* found = find(scopes_[i].names)) return *found;
    if (scopes_[i].parent == i) break;
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

// The body becomes a macro named "caller", which sees what surrounds the block.
Status Evaluator::run_call(const Statement& statement, std::string& out) {
  const Expr& call = *statement.expr;
  FORERUN_ASSIGN_OR_RETURN(const Value callee, eval(*call.args[0]));
  FORERUN_ASSIGN_OR_RETURN(Arguments args, eval_arguments(call));
  if (callee.kind() != Kind::kMacro) {
    return Status(StatusCode::kInvalidArgument,
                  std::string("call: found ") + callee.kind_name() + "; accepted: a macro");
  }
  args.named.emplace_back("caller", macro_here(statement));
  FORERUN_ASSIGN_OR_RETURN(const Value made, call_macro(callee.as_macro(), args));
  return append(made.as_string(), out);
}

Result<Value> Evaluator::call_macro(const Value::Macro& called, const Arguments& args) {
  const DepthGuard guard(depth_);
  FORERUN_RETURN_IF_ERROR(guard.check());
  const Statement& macro = *called.definition;
  const bool is_gone =
      called.scope_index >= scopes_.size() || scopes_[called.scope_index].id != called.scope_id;
  if (is_gone) {
    return Status(StatusCode::kUnsupported, macro.text +
                                                "(): found a call after the block that defines it "
                                                "had ended; accepted: calls within that block");
  }
  std::string parameters;
  Arguments accepted;
  for (size_t i = 0; i < macro.targets.size(); ++i) {
    parameters += (i > 0 ? ", " : "") + macro.targets[i].name + "?";
  }
  List more;
  Names named;
  const size_t count = macro.targets.size();
  for (size_t i = 0; i < args.positional.size(); ++i) {
    const bool is_more = i >= count && macro.uses_varargs;
    (is_more ? more : accepted.positional).push_back(args.positional[i]);
  }
  for (const auto& argument : args.named) {
    const bool is_known =
        std::any_of(macro.targets.begin(), macro.targets.end(),
                    [&](const Target& target) { return target.name == argument.first; });
    const bool is_caller = argument.first == "caller" && macro.uses_caller && !is_known;
    if (is_caller) continue;
    (!is_known && macro.uses_kwargs ? named : accepted.named).push_back(argument);
  }
  FORERUN_RETURN_IF_ERROR(accepted.check(macro.text + "()", parameters));
  FORERUN_ASSIGN_OR_RETURN(const Value varargs, Value::list(std::move(more), ListForm::kTuple));
  FORERUN_ASSIGN_OR_RETURN(const Value kwargs, Value::dict(named));
  open_scope(called.scope_index);
  if (macro.uses_varargs) assign("varargs", varargs);
  if (macro.uses_kwargs) assign("kwargs", kwargs);
  if (macro.uses_caller) {
    const Value* caller = args.get(args.positional.size(), "caller");
    assign("caller", caller ? *caller : Value::undefined("caller"));
  }
  Status status;
  for (size_t i = 0; status.ok() && i < count; ++i) {
    const std::string& name = macro.targets[i].name;
    if (const Value* given = accepted.get(i, name)) {
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

// dict(...): of a mapping or of pairs, and of named arguments.
Result<Value> Evaluator::make_mapping(const Arguments& args) {
  if (args.positional.size() > 1) {
    return Status(StatusCode::kInvalidArgument, "dict(): accepted: a mapping or pairs, and names");
  }
  Dict members;
  const auto set = [&](const Value& key, const Value& value) -> Status {
    FORERUN_RETURN_IF_ERROR(runtime_.budget.spend(1 + members.size() / 8));
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
    FORERUN_ASSIGN_OR_RETURN(const List pairs, iterate(args.positional[0], runtime_));
    for (const Value& pair : pairs) {
      FORERUN_ASSIGN_OR_RETURN(const List parts, iterate(pair, runtime_));
      if (parts.size() != 2) return bad_value("dict()", pair, "pairs");
      FORERUN_RETURN_IF_ERROR(set(parts[0], parts[1]));
    }
  }
  for (const auto& [name, value] : args.named) {
    FORERUN_RETURN_IF_ERROR(set(Value::string(name), value));
  }
  return Value::dict(std::move(members));
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
      FORERUN_RETURN_IF_ERROR(runtime_.budget.spend(1 + 4 * out.size()));
      std::string shown = "range(" + std::to_string(bounds[0]) + ", " + std::to_string(bounds[1]);
      if (bounds[2] != 1) shown += ", " + std::to_string(bounds[2]);
      return Value::range(std::move(out), shown + ")");
    }
    case Function::kNamespace: {
      Value space = Value::new_namespace();
      FORERUN_ASSIGN_OR_RETURN(const Value members, make_mapping(args));
      for (const auto& [name, member] : members.as_dict()) {
        FORERUN_RETURN_IF_ERROR(space.set_member(to_text(name), member));
      }
      return space;
    }
    case Function::kDict:
      return make_mapping(args);
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
