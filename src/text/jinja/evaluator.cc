#include "text/jinja/evaluator.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace forerun::text::jinja {
namespace {

Status at_line(const Status& status, uint32_t line) {
  if (status.ok() || status.message().starts_with("line ")) return status;
  return status.with_context("line " + std::to_string(line));
}

Names with_functions(Names variables) {
  for (auto& function : built_in_functions()) variables.push_back(std::move(function));
  return variables;
}

}  // namespace

Evaluator::Evaluator(Names variables, Runtime& runtime)
    : runtime_(runtime),
      scopes_(with_functions(std::move(variables))),
      expressions_(scopes_, runtime, [this](const Value::Macro& macro, const Arguments& arguments) {
        return call_macro(macro, arguments);
      }) {}

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
  const DepthGuard guard(runtime_);
  FORERUN_RETURN_IF_ERROR(guard.check());
  FORERUN_RETURN_IF_ERROR(runtime_.budget.spend(1));
  switch (statement.kind) {
    case StatementKind::kText:
      return append(statement.text, out);
    case StatementKind::kOutput: {
      FORERUN_ASSIGN_OR_RETURN(const Value value, expressions_.eval(*statement.expr));
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
      scopes_.assign(statement.text, scopes_.macro_here(statement));
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
    FORERUN_ASSIGN_OR_RETURN(const Value condition, expressions_.eval(*branch.condition));
    if (condition.truth()) return run(branch.body, out, flow);
  }
  return run(statement.otherwise, out, flow);
}

Status Evaluator::run_for(const Statement& statement, std::string& out) {
  FORERUN_ASSIGN_OR_RETURN(const Value value, expressions_.eval(*statement.expr));
  FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime_));
  if (statement.condition) {
    List kept;
    for (Value& element : items) {
      scopes_.open();
      Status assigned = assign_targets(statement.targets, element);
      Result<Value> condition = assigned.ok() ? expressions_.eval(*statement.condition) : Value();
      scopes_.close();
      FORERUN_RETURN_IF_ERROR(assigned);
      if (!condition.ok()) return condition.status();
      if (condition->truth()) kept.push_back(std::move(element));
    }
    items = std::move(kept);
  }
  if (!items.empty()) return run_loop(statement, items, out);
  Flow flow = Flow::kOn;
  scopes_.open();
  Status status = run(statement.otherwise, out, flow);
  scopes_.close();
  return status;
}

Status Evaluator::run_loop(const Statement& statement, const List& items, std::string& out) {
  auto state = std::make_shared<LoopState>();
  state->items = &items;
  Status status;
  for (size_t i = 0; status.ok() && i < items.size(); ++i) {
    state->index0 = i;
    scopes_.open();
    scopes_.assign("loop", Value::loop(state));
    status = assign_targets(statement.targets, items[i]);
    Flow flow = Flow::kOn;
    if (status.ok()) status = run(statement.body, out, flow);
    scopes_.close();
    if (flow == Flow::kBreak) break;
  }
  // A loop object kept by a namespace must not access items that no longer exist.
  static const List kGone;
  state->items = &kGone;
  state->index0 = 0;
  return status;
}

Status Evaluator::run_set(const Statement& statement) {
  FORERUN_ASSIGN_OR_RETURN(const Value value, expressions_.eval(*statement.expr));
  return assign_targets(statement.targets, value);
}

Status Evaluator::run_captured(const Statement& statement, std::string& out) {
  std::string inner;
  Flow flow = Flow::kOn;
  scopes_.open();
  const Status status = run(statement.body, inner, flow);
  scopes_.close();
  FORERUN_RETURN_IF_ERROR(status);
  Value value = Value::string(std::move(inner));
  if (statement.expr) {
    FORERUN_ASSIGN_OR_RETURN(value, expressions_.filter(*statement.expr, &value));
  }
  if (statement.kind == StatementKind::kFilter) return append(to_text(value), out);
  return assign_target(statement.targets[0], std::move(value));
}

Status Evaluator::run_scope(const Statement& statement, std::string& out, Flow& flow) {
  scopes_.open();
  Status status = run(statement.body, out, flow);
  scopes_.close();
  return status;
}

// Runs {% with a = 1 %}: the values are evaluated in the outer scope.
Status Evaluator::run_with(const Statement& statement, std::string& out, Flow& flow) {
  List values;
  for (const ExprPtr& given : statement.defaults) {
    FORERUN_ASSIGN_OR_RETURN(Value value, expressions_.eval(*given));
    values.push_back(std::move(value));
  }
  scopes_.open();
  for (size_t i = 0; i < values.size(); ++i) scopes_.assign(statement.targets[i].name, values[i]);
  Status status = run(statement.body, out, flow);
  scopes_.close();
  return status;
}

Status Evaluator::assign_target(const Target& target, Value value) {
  if (target.member.empty()) {
    scopes_.assign(target.name, std::move(value));
    return {};
  }
  Value space = scopes_.lookup(target.name);
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

// Makes the body a macro named "caller", which sees the scope around the block.
Status Evaluator::run_call(const Statement& statement, std::string& out) {
  const Expr& call = *statement.expr;
  FORERUN_ASSIGN_OR_RETURN(const Value callee, expressions_.eval(*call.args[0]));
  FORERUN_ASSIGN_OR_RETURN(Arguments args, expressions_.arguments(call));
  if (callee.kind() != Kind::kMacro) {
    return Status(StatusCode::kInvalidArgument,
                  std::string("call: found ") + callee.kind_name() + "; accepted: a macro");
  }
  args.named.emplace_back("caller", scopes_.macro_here(statement));
  FORERUN_ASSIGN_OR_RETURN(const Value made, call_macro(callee.as_macro(), args));
  return append(made.as_string(), out);
}

Result<Value> Evaluator::call_macro(const Value::Macro& called, const Arguments& args) {
  const DepthGuard guard(runtime_);
  FORERUN_RETURN_IF_ERROR(guard.check());
  const Statement& macro = *called.definition;
  if (!scopes_.is_open(called)) {
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
  scopes_.open(called.scope_index);
  if (macro.uses_varargs) scopes_.assign("varargs", varargs);
  if (macro.uses_kwargs) scopes_.assign("kwargs", kwargs);
  if (macro.uses_caller) {
    const Value* caller = args.get(args.positional.size(), "caller");
    scopes_.assign("caller", caller ? *caller : Value::undefined("caller"));
  }
  Status status;
  for (size_t i = 0; status.ok() && i < count; ++i) {
    const std::string& name = macro.targets[i].name;
    if (const Value* given = accepted.get(i, name)) {
      scopes_.assign(name, *given);
    } else if (macro.defaults[i]) {
      Result<Value> fallback = expressions_.eval(*macro.defaults[i]);
      status = fallback.status();
      if (status.ok()) scopes_.assign(name, std::move(fallback).value());
    } else {
      scopes_.assign(name, Value::undefined(name));
    }
  }
  std::string out;
  Flow flow = Flow::kOn;
  if (status.ok()) status = run(macro.body, out, flow);
  scopes_.close();
  FORERUN_RETURN_IF_ERROR(status);
  return make_text(std::move(out), runtime_);
}

}  // namespace forerun::text::jinja
