// The parsed template. Immutable after parsing; may be rendered by several threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace forerun::text::jinja {

// Deepest nesting of expressions, and of statements.
constexpr uint32_t kMaxExpressionDepth = 200;
constexpr uint32_t kMaxStatementDepth = 64;

enum class ExprKind : uint8_t {
  kLiteral,    // value
  kName,       // name
  kList,       // args
  kTuple,      // args
  kDict,       // args: key, value, key, value...
  kAttribute,  // args[0].name
  kItem,       // args[0][args[1]]
  kSlice,      // args[0][args[1]:args[2]:args[3]], null where left out
  kCall,       // args[0](args[1]..., named)
  kFilter,     // args[0] | name(args[1]..., named); args[0] null in a filter block
  kTest,       // args[0] is name(args[1]...)
  kUnary,      // name args[0]: "not", "-", "+"
  kBinary,     // args[0] name args[1]; "and" and "or" among them
  kCompare,    // args[0] operators[0] args[1] operators[1] args[2]...
  kCondition,  // args[0] if args[1] else args[2] (null: undefined)
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  uint32_t line = 1;
  uint32_t depth = 1;  // of this tree
  std::string name;
  Value value;
  std::vector<ExprPtr> args;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr rest, named_rest;  // of a call: *rest, **named_rest
  std::vector<std::string> operators;
};

enum class StatementKind : uint8_t {
  kText,      // text
  kOutput,    // expr
  kIf,        // branches, otherwise
  kFor,       // targets in expr if condition: body, otherwise
  kSet,       // targets = expr
  kSetBlock,  // targets = body, through the filters of expr
  kMacro,     // text(targets = defaults): body
  kCall,      // expr, a call, given body(targets = defaults) as its caller
  kFilter,    // body through the filters of expr
  kScope,     // body; "generation"
  kWith,      // targets = defaults: body
  kBreak,
  kContinue,
};

// What is assigned to: a name, or a member of a namespace.
struct Target {
  std::string name;
  std::string member;  // "": the name itself
};

struct Statement;
using Body = std::vector<Statement>;

struct Branch;

struct Statement {
  StatementKind kind = StatementKind::kText;
  uint32_t line = 1;
  std::string text;
  ExprPtr expr;
  ExprPtr condition;
  std::vector<Target> targets;
  std::vector<ExprPtr> defaults;  // of the last parameters; null where there is none
  // Whether a macro's body reads them: only then it takes arguments beyond its parameters.
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
  std::vector<Branch> branches;
  Body body;
  Body otherwise;
};

struct Branch {
  ExprPtr condition;
  Body body;
};

}  // namespace forerun::text::jinja
