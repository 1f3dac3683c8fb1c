// Runs a parsed template: statements and macros, which evaluate expressions (expressions.h) in
// scopes (scopes.h).
//
// Thread rules: one render uses one thread. Keeps references to the template and the runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "text/jinja/expressions.h"
#include "text/jinja/runtime.h"
#include "text/jinja/scopes.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace forerun::text::jinja {

// Evaluates the template for one render.
class Evaluator {
 public:
  // `variables`: names visible to the template in addition to the built-in functions.
  Evaluator(Names variables, Runtime& runtime);
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  Result<std::string> render(const Body& body);

 private:
  enum class Flow : uint8_t { kOn, kBreak, kContinue };

  Status run(const Body& body, std::string& out, Flow& flow);
  Status run_statement(const Statement& statement, std::string& out, Flow& flow);
  Status run_if(const Statement& statement, std::string& out, Flow& flow);
  Status run_for(const Statement& statement, std::string& out);
  Status run_loop(const Statement& statement, const List& items, std::string& out);
  Status run_set(const Statement& statement);
  Status run_captured(const Statement& statement, std::string& out);
  Status run_scope(const Statement& statement, std::string& out, Flow& flow);
  Status run_call(const Statement& statement, std::string& out);
  Status run_with(const Statement& statement, std::string& out, Flow& flow);
  Status append(const std::string& text, std::string& out);
  Result<Value> call_macro(const Value::Macro& macro, const Arguments& args);
  Status assign_target(const Target& target, Value value);
  Status assign_targets(const std::vector<Target>& targets, const Value& value);

  Runtime& runtime_;
  Scopes scopes_;
  Expressions expressions_;
};

}  // namespace forerun::text::jinja
