#include "text/jinja/expressions.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace forerun::text::jinja {

Result<Value> Expressions::eval(const Expr& expr) {
  // The parser limits the tree's own depth; DepthGuard::check() limits macros.
  const DepthGuard guard(runtime_);
  FORERUN_RETURN_IF_ERROR(runtime_.budget.spend(1));
  return eval_kind(expr);
}

Result<Value> Expressions::eval_kind(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kLiteral:
      return expr.value;
    case ExprKind::kName:
      return scopes_.lookup(expr.name);
    case ExprKind::kList:
    case ExprKind::kTuple:
      return eval_sequence(expr);
    case ExprKind::kDict:
      return eval_dict(expr);
    case ExprKind::kAttribute:
    case ExprKind::kItem:
      return eval_access(expr);
    case ExprKind::kSlice:
      return eval_slice(expr);
    case ExprKind::kCall:
      return eval_call(expr);
    case ExprKind::kFilter:
      return filter(expr, nullptr);
    case ExprKind::kTest:
      return eval_test(expr);
    case ExprKind::kUnary:
    case ExprKind::kBinary:
      return eval_operator(expr);
    case ExprKind::kCompare:
      return eval_comparison(expr);
    case ExprKind::kCondition:
      return eval_condition(expr);
  }
  return Value();
}

Result<Value> Expressions::eval_sequence(const Expr& expr) {
  List items;
  for (const ExprPtr& arg : expr.args) {
    FORERUN_ASSIGN_OR_RETURN(Value element, eval(*arg));
    items.push_back(std::move(element));
  }
  return make_list(std::move(items), runtime_,
                   expr.kind == ExprKind::kTuple ? ListForm::kTuple : ListForm::kList);
}

Result<Value> Expressions::eval_dict(const Expr& expr) {
  Dict members;
  for (size_t i = 0; i + 1 < expr.args.size(); i += 2) {
    FORERUN_ASSIGN_OR_RETURN(Value key, eval(*expr.args[i]));
    FORERUN_ASSIGN_OR_RETURN(Value value, eval(*expr.args[i + 1]));
    if (!key.is_hashable()) {
      return bad_value("key of a mapping", key, "strings, numbers, booleans, none, tuples of them");
    }
    FORERUN_RETURN_IF_ERROR(runtime_.budget.spend(1 + members.size() / 8));
    const auto known = std::find_if(members.begin(), members.end(),
                                    [&](const auto& member) { return equal(member.first, key); });
    if (known != members.end()) {
      known->second = std::move(value);
    } else {
      members.emplace_back(std::move(key), std::move(value));
    }
  }
  return Value::dict(std::move(members));
}

Result<Value> Expressions::eval_access(const Expr& expr) {
  FORERUN_ASSIGN_OR_RETURN(const Value value, eval(*expr.args[0]));
  Result<Value> out = Value();
  if (expr.kind == ExprKind::kAttribute) {
    out = attribute(value, expr.name);
  } else {
    FORERUN_ASSIGN_OR_RETURN(const Value key, eval(*expr.args[1]));
    out = item(value, key, runtime_);
  }
  return out;
}

Result<Value> Expressions::eval_slice(const Expr& expr) {
  FORERUN_ASSIGN_OR_RETURN(const Value value, eval(*expr.args[0]));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!expr.args[i + 1]) continue;
    FORERUN_ASSIGN_OR_RETURN(bounds[i], eval(*expr.args[i + 1]));
  }
  const auto given = [&](size_t i) { return expr.args[i + 1] ? &bounds[i] : nullptr; };
  return slice(value, given(0), given(1), given(2), runtime_);
}

Result<Value> Expressions::eval_operator(const Expr& expr) {
  FORERUN_ASSIGN_OR_RETURN(const Value left, eval(*expr.args[0]));
  if (expr.kind == ExprKind::kUnary) {
    if (expr.name == "not") return Value::boolean(!left.truth());
    return binary(expr.name, Value::integer(0), left, runtime_);
  }
  if (expr.name == "and") return left.truth() ? eval(*expr.args[1]) : left;
  if (expr.name == "or") return left.truth() ? left : eval(*expr.args[1]);
  FORERUN_ASSIGN_OR_RETURN(const Value right, eval(*expr.args[1]));
  return binary(expr.name, left, right, runtime_);
}

Result<Value> Expressions::eval_comparison(const Expr& expr) {
  FORERUN_ASSIGN_OR_RETURN(Value left, eval(*expr.args[0]));
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    FORERUN_ASSIGN_OR_RETURN(Value right, eval(*expr.args[i + 1]));
    FORERUN_ASSIGN_OR_RETURN(const bool holds, relation(expr.operators[i], left, right));
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Expressions::eval_condition(const Expr& expr) {
  FORERUN_ASSIGN_OR_RETURN(const Value condition, eval(*expr.args[1]));
  if (condition.truth()) return eval(*expr.args[0]);
  if (!expr.args[2]) return Value::undefined("the else of an inline if");
  return eval(*expr.args[2]);
}

Result<Arguments> Expressions::arguments(const Expr& expr) {
  Arguments out;
  for (size_t i = 1; i < expr.args.size(); ++i) {
    FORERUN_ASSIGN_OR_RETURN(Value value, eval(*expr.args[i]));
    out.positional.push_back(std::move(value));
  }
  for (const auto& named : expr.named) {
    FORERUN_ASSIGN_OR_RETURN(Value value, eval(*named.second));
    out.named.emplace_back(named.first, std::move(value));
  }
  if (expr.rest) FORERUN_RETURN_IF_ERROR(unpack(expr.rest, false, out));
  if (expr.named_rest) FORERUN_RETURN_IF_ERROR(unpack(expr.named_rest, true, out));
  return out;
}

// Evaluates f(*list) and f(**mapping).
Status Expressions::unpack(const ExprPtr& rest, bool is_mapping, Arguments& out) {
  FORERUN_ASSIGN_OR_RETURN(const Value value, eval(*rest));
  if (!is_mapping) {
    FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime_));
    out.positional.insert(out.positional.end(), items.begin(), items.end());
    return {};
  }
  if (!value.is_dict()) return bad_value("**", value, "a mapping");
  for (const auto& [name, member] : value.as_dict()) {
    if (!name.is_string()) return bad_value("**", name, "strings as keys");
    out.named.emplace_back(name.as_string(), member);
  }
  return {};
}

Result<Value> Expressions::eval_call(const Expr& expr) {
  FORERUN_ASSIGN_OR_RETURN(const Value callee, eval(*expr.args[0]));
  FORERUN_ASSIGN_OR_RETURN(const Arguments args, arguments(expr));
  switch (callee.kind()) {
    case Kind::kFunction:
      return call_function(callee.as_function(), args, runtime_);
    case Kind::kMacro:
      return call_macro_(callee.as_macro(), args);
    case Kind::kMethod:
      return call_method(*callee.as_method().self, callee.as_method().name, args, runtime_);
    default:
      break;
  }
  const Expr& target = *expr.args[0];
  const std::string name = target.name.empty() ? "the value" : "'" + target.name + "'";
  return Status(StatusCode::kInvalidArgument,
                "call of " + name + ": found " + callee.kind_name() +
                    "; accepted: a macro, a method or one of range, namespace, dict, "
                    "raise_exception, strftime_now");
}

Result<Value> Expressions::filter(const Expr& expr, const Value* piped) {
  Value value;
  if (!expr.args[0]) {
    if (piped) value = *piped;
  } else if (piped && expr.args[0]->kind == ExprKind::kFilter) {
    FORERUN_ASSIGN_OR_RETURN(value, filter(*expr.args[0], piped));
  } else {
    FORERUN_ASSIGN_OR_RETURN(value, eval(*expr.args[0]));
  }
  FORERUN_ASSIGN_OR_RETURN(const Arguments args, arguments(expr));
  return apply_filter(expr.name, value, args, runtime_);
}

Result<Value> Expressions::eval_test(const Expr& expr) {
  FORERUN_ASSIGN_OR_RETURN(const Value value, eval(*expr.args[0]));
  FORERUN_ASSIGN_OR_RETURN(const Arguments args, arguments(expr));
  FORERUN_ASSIGN_OR_RETURN(const bool holds, apply_test(expr.name, value, args, runtime_));
  return Value::boolean(holds);
}

}  // namespace forerun::text::jinja
