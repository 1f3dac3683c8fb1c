// Runs a parsed template.
#pragma once

#include <optional>
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
  Evaluator(Names variables, Runtime& runtime);

  Result<std::string> render(const Body& body);

 private:
  // Each level takes up to some kilobytes of stack in a sanitizer build.
  static constexpr uint32_t kMaxDepth = 500;

  enum class Flow : uint8_t { kOn, kBreak, kContinue };
  struct Scope {
    Names names;
    uint64_t id = 0;    // never used again
    size_t parent = 0;  // index of the scope behind it; its own: none
  };

  class DepthGuard {
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
  Status unpack(const ExprPtr& rest, bool is_mapping, Arguments& out);
  Result<Value> call_function(Function which, const Arguments& args);
  Result<Value> call_macro(const Value::Macro& macro, const Arguments& args);
  Result<Value> make_mapping(const Arguments& args);
  Status run_call(const Statement& statement, std::string& out);
  Status run_with(const Statement& statement, std::string& out, Flow& flow);

  // A scope within `parent`; without one, within the innermost.
  void open_scope(std::optional<size_t> parent = std::nullopt);
  Value macro_here(const Statement& definition) const;
  Value lookup(const std::string& name) const;
  void assign(const std::string& name, Value value);
  Status assign_target(const Target& target, Value value);
  Status assign_targets(const std::vector<Target>& targets, const Value& value);

  Names variables_;
  Runtime& runtime_;
  std::vector<Scope> scopes_;
  uint32_t depth_ = 0;  // of nested evaluation, macros included
  uint64_t next_scope_id_ = 1;
};

}  // namespace forerun::text::jinja
