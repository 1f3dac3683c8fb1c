// A template's source, its tokens and its tree.
//
// The source is read with transformers' settings of Jinja: trim_blocks and lstrip_blocks on, one
// newline at the end dropped. The tree is immutable after parsing and may be rendered by several
// threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/status.h"
#include "text/jinja/value.h"

namespace forerun::text::jinja {

enum class TokenKind : uint8_t {
  kText,         // literal text between tags
  kOutputBegin,  // {{
  kOutputEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,  // unescaped
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  uint32_t line = 1;
};

// Splits `source` into tokens; "line N" in a message is a line of it.
Result<std::vector<Token>> lex(std::string_view source);

// A cursor over tokens, with the errors that both parsers share.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // Returns a token ahead. The last token is kEnd and is never passed.
  const Token& peek(size_t ahead = 0) const {
    const size_t at = at_ + ahead;
    return tokens_[at < tokens_.size() ? at : tokens_.size() - 1];
  }
  Token next() {
    Token token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is(TokenKind kind) const { return peek().kind == kind; }
  bool is_operator(std::string_view text) const {
    return peek().kind == TokenKind::kOperator && peek().text == text;
  }
  bool is_name(std::string_view text) const {
    return peek().kind == TokenKind::kName && peek().text == text;
  }
  bool take_operator(std::string_view text) {
    const bool found = is_operator(text);
    if (found) next();
    return found;
  }
  bool take_name(std::string_view text) {
    const bool found = is_name(text);
    if (found) next();
    return found;
  }
  Status expect_operator(std::string_view text) {
    return take_operator(text) ? Status() : unexpected(std::string(text));
  }
  Result<std::string> expect_name() {
    if (!is(TokenKind::kName)) return unexpected("a name");
    return next().text;
  }

  size_t position() const { return at_; }
  // Returns whether `name` is among the tokens from `position` to here.
  bool names_since(size_t position, std::string_view name) const {
    for (size_t i = position; i < at_; ++i) {
      if (tokens_[i].kind == TokenKind::kName && tokens_[i].text == name) return true;
    }
    return false;
  }

  Status unexpected(const std::string& accepted) const {
    const Token& token = peek();
    std::string found = token.text;
    if (token.kind == TokenKind::kEnd) found = "the end of the template";
    if (token.kind == TokenKind::kBlockEnd) found = "%}";
    if (token.kind == TokenKind::kOutputEnd) found = "}}";
    return fail("found " + found + "; accepted: " + accepted);
  }
  Status fail(const std::string& message, StatusCode code = StatusCode::kInvalidArgument) const {
    return Status(code, "line " + std::to_string(peek().line) + ": " + message);
  }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// Maximum nesting of expressions, and of statements.
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
  kSlice,      // args[0][args[1]:args[2]:args[3]], null if omitted
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
  uint32_t depth = 1;  // depth of this tree
  std::string name;
  Value value;
  std::vector<ExprPtr> args;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr rest, named_rest;  // *rest and **named_rest of a call
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

// The target of an assignment: a name, or a member of a namespace.
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
  std::vector<ExprPtr> defaults;  // defaults of the last parameters; null if there is none
  // Whether a macro's body reads them: only then it accepts arguments beyond its parameters.
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
  std::vector<Branch> branches;
  Body body;
  Body otherwise;
};

struct Branch {
  ExprPtr condition;
  Body body;
};

// Parses expressions by precedence climbing, with Jinja's order of precedence.
class ExpressionParser {
 public:
  // Keeps the reference.
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // Parses a whole expression; `with_condition` allows an inline if.
  Result<ExprPtr> expression(bool with_condition = true);
  // Does the same, or parses several expressions separated by commas: a tuple.
  Result<ExprPtr> tuple(bool with_condition = true);
  // Parses "name | name(...)" after a value that the caller has; returns null if there is no "|"
  // and no name.
  Result<ExprPtr> filters(ExprPtr value, bool starts_with_name = false);

 private:
  class DepthGuard;

  Result<ExprPtr> either();
  Result<ExprPtr> both();
  Result<ExprPtr> negation();
  Result<ExprPtr> comparison();
  Result<ExprPtr> left_chain(int level);
  Result<ExprPtr> unary(bool with_filters = true);
  Result<ExprPtr> primary();
  Result<ExprPtr> postfix(ExprPtr value);
  Result<ExprPtr> postfix_filters(ExprPtr value);
  Result<ExprPtr> one_filter(ExprPtr value);
  Result<ExprPtr> test(ExprPtr value);
  Result<ExprPtr> subscript(ExprPtr value);
  Result<ExprPtr> parenthesized();
  Result<ExprPtr> list_literal();
  Result<ExprPtr> dict_literal();
  Status arguments(Expr& call);

  // Returns the error of an expression that is nested too deep.
  Status too_deep() const;
  ExprPtr node(ExprKind kind, std::string name = "") const;
  // Sets the depth; fails if the tree is too deep to be evaluated.
  Result<ExprPtr> done(ExprPtr expr) const;

  TokenStream& tokens_;
  uint32_t nesting_ = 0;  // nesting of this parser's calls
};

// Fails with kInvalidArgument and the line for an invalid template, kUnsupported for Jinja that
// chat templates do not use (extends, include, import, block, recursive loops).
Result<Body> parse_template(std::string_view source);

}  // namespace forerun::text::jinja
