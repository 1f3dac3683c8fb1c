#include "text/jinja/evaluator.h"

#include <utility>

#include "base/status_macros.h"

namespace forerun::text::jinja {
namespace {

Status at_line(const Status& status, uint32_t line) {
  if (status.ok() || status.message().starts_with("line ")) return status;
  return status.with_context("line " + std::to_string(line));
}

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
  const Status status = run(statement.otherwise, out, flow);
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
  const Status status = run(statement.body, out, flow);
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
  const Status status = run(statement.body, out, flow);
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

}  // namespace forerun::text::jinja
