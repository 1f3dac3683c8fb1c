// Runs a parsed template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "forerun/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"
#include "text/jinja/runtime.h"

namespace forerun::text::jinja {

// One render: used once, by one thread. Keeps references to the template and the runtime.
class Evaluator {
 public:
  // `variables`: what the template sees beside the built-in functions.
  Evaluator(Dict variables, Runtime& runtime);

  Result<std::string> render(const Body& body);

 private:
  enum class Flow : uint8_t { kOn, kBreak, kContinue };
  struct Scope {
    Dict names;
    bool hides_outer = false;  // a macro's: only the template's own scope lies behind it
  };
  class DepthGuard;

  Status run(const Body& body, std::string& out, Flow& flow);
  Status run_statement(const Statement& statement, std::string& out, Flow& flow);
  Status run_if(const Statement& statement, std::string& out, Flow& flow);
  Status run_for(const Statement& statement, std::string& out);
  Status run_loop(const Statement& statement, const List& items, std::string& out);
  Status run_set(const Statement& statement);
  Status run_captured(const Statement& statement, std::string& out);
  Status run_scope(const Statement& statement, std::string& out, Flow& flow);
  Status append(const std::string& text, std::string& out);

  Result<Value> eval(const Expr& expr);
  Result<Value> eval_kind(const Expr& expr);
  Result<Value> eval_sequence(const Expr& expr);
  Result<Value> eval_dict(const Expr& expr);
  Result<Value> eval_access(const Expr& expr);
  Result<Value> eval_slice(const Expr& expr);
  Result<Value> eval_operator(const Expr& expr);
  Result<Value> eval_comparison(const Expr& expr);
  Result<Value> eval_condition(const Expr& expr);
  Result<Value> eval_call(const Expr& expr);
  Result<Value> eval_filter(const Expr& expr, const Value* piped);
  Result<Value> eval_test(const Expr& expr);
  Result<Arguments> eval_arguments(const Expr& expr);
  Result<Value> call_function(Function which, const Arguments& args);
  Result<Value> call_macro(const Statement& macro, const Arguments& args);

  Value lookup(const std::string& name) const;
  void assign(const std::string& name, Value value);
  Status assign_target(const Target& target, Value value);
  Status assign_targets(const std::vector<Target>& targets, const Value& value);

  Dict variables_;
  Runtime& runtime_;
  std::vector<Scope> scopes_;
  uint32_t depth_ = 0;  // of nested evaluation, macros included
  uint32_t loop_depth_ = 0;
};

}  // namespace forerun::text::jinja
