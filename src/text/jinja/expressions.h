// Evaluates the expressions of a template.
//
// Thread rules: one render uses one thread. It charges the runtime's budget and changes no scope; a
// macro that it calls may change values in namespaces.
#pragma once

#include <functional>
#include <utility>

#include "forerun/status.h"
#include "text/jinja/runtime.h"
#include "text/jinja/scopes.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace forerun::text::jinja {

class Expressions {
 public:
  using CallMacro =
      std::function<Result<Value>(const Value::Macro& macro, const Arguments& arguments)>;

  // `scopes` and `runtime` must outlive the object. `call_macro` runs a macro's statements.
  Expressions(const Scopes& scopes, Runtime& runtime, CallMacro call_macro)
      : scopes_(scopes), runtime_(runtime), call_macro_(std::move(call_macro)) {}

  Result<Value> eval(const Expr& expr);
  // Evaluates the arguments of a call, a filter or a test.
  Result<Arguments> arguments(const Expr& expr);
  // Applies a filter, or a chain of them. `piped`: the input of a chain that names no value; null
  // if it names one.
  Result<Value> filter(const Expr& expr, const Value* piped);

 private:
  Result<Value> eval_kind(const Expr& expr);
  Result<Value> eval_sequence(const Expr& expr);
  Result<Value> eval_dict(const Expr& expr);
  Result<Value> eval_access(const Expr& expr);
  Result<Value> eval_slice(const Expr& expr);
  Result<Value> eval_operator(const Expr& expr);
  Result<Value> eval_comparison(const Expr& expr);
  Result<Value> eval_condition(const Expr& expr);
  Result<Value> eval_call(const Expr& expr);
  Result<Value> eval_test(const Expr& expr);
  Status unpack(const ExprPtr& rest, bool is_mapping, Arguments& out);

  const Scopes& scopes_;
  Runtime& runtime_;
  const CallMacro call_macro_;
};

}  // namespace forerun::text::jinja
