// Parses tokens to expressions.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "text/jinja/syntax.h"

namespace forerun::text::jinja {
namespace {

constexpr int kLevels = 4;
// Left-associative operators, loosest first.
const std::vector<std::string_view>& operators_of(int level) {
  static const std::vector<std::string_view> kOperators[kLevels] = {
      {"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
  return kOperators[level];
}

}  // namespace

class ExpressionParser::DepthGuard {
 public:
  explicit DepthGuard(uint32_t& nesting) : nesting_(nesting) { ++nesting_; }
  ~DepthGuard() { --nesting_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  bool too_deep() const { return nesting_ > kMaxExpressionDepth; }

 private:
  uint32_t& nesting_;
};

Status ExpressionParser::too_deep() const {
  const std::string limit = std::to_string(kMaxExpressionDepth);
  return tokens_.fail(
      "found an expression nested more than " + limit + " deep; accepted: at most " + limit,
      StatusCode::kUnsupported);
}

ExprPtr ExpressionParser::node(ExprKind kind, std::string name) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = tokens_.peek().line;
  expr->name = std::move(name);
  return expr;
}

Result<ExprPtr> ExpressionParser::done(ExprPtr expr) const {
  for (const ExprPtr& arg : expr->args) {
    if (arg) expr->depth = std::max(expr->depth, arg->depth + 1);
  }
  for (const auto& arg : expr->named) expr->depth = std::max(expr->depth, arg.second->depth + 1);
  for (const ExprPtr* rest : {&expr->rest, &expr->named_rest}) {
    if (*rest) expr->depth = std::max(expr->depth, (*rest)->depth + 1);
  }
  if (expr->depth > kMaxExpressionDepth) {
    return too_deep();
  }
  return expr;
}

Result<ExprPtr> ExpressionParser::tuple(bool with_condition) {
  ExprPtr out = node(ExprKind::kTuple);
  FORERUN_ASSIGN_OR_RETURN(ExprPtr first, expression(with_condition));
  if (!tokens_.is_operator(",")) return first;
  out->args.push_back(std::move(first));
  while (tokens_.take_operator(",")) {
    if (tokens_.is(TokenKind::kBlockEnd) || tokens_.is(TokenKind::kOutputEnd) ||
        tokens_.is_operator(")") || tokens_.is_operator("=")) {
      break;
    }
    FORERUN_ASSIGN_OR_RETURN(ExprPtr item, expression(with_condition));
    out->args.push_back(std::move(item));
  }
  return done(std::move(out));
}

Result<ExprPtr> ExpressionParser::expression(bool with_condition) {
  const DepthGuard guard(nesting_);
  if (guard.too_deep()) return too_deep();
  FORERUN_ASSIGN_OR_RETURN(ExprPtr value, either());
  while (with_condition && tokens_.is_name("if")) {
    ExprPtr out = node(ExprKind::kCondition);
    tokens_.next();
    FORERUN_ASSIGN_OR_RETURN(ExprPtr condition, either());
    ExprPtr otherwise;
    if (tokens_.take_name("else")) {
      FORERUN_ASSIGN_OR_RETURN(otherwise, expression());
    }
    out->args.push_back(std::move(value));
    out->args.push_back(std::move(condition));
    out->args.push_back(std::move(otherwise));
    FORERUN_ASSIGN_OR_RETURN(value, done(std::move(out)));
  }
  return value;
}

Result<ExprPtr> ExpressionParser::either() {
  FORERUN_ASSIGN_OR_RETURN(ExprPtr left, both());
  while (tokens_.is_name("or")) {
    ExprPtr out = node(ExprKind::kBinary, tokens_.next().text);
    FORERUN_ASSIGN_OR_RETURN(ExprPtr right, both());
    out->args.push_back(std::move(left));
    out->args.push_back(std::move(right));
    FORERUN_ASSIGN_OR_RETURN(left, done(std::move(out)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::both() {
  FORERUN_ASSIGN_OR_RETURN(ExprPtr left, negation());
  while (tokens_.is_name("and")) {
    ExprPtr out = node(ExprKind::kBinary, tokens_.next().text);
    FORERUN_ASSIGN_OR_RETURN(ExprPtr right, negation());
    out->args.push_back(std::move(left));
    out->args.push_back(std::move(right));
    FORERUN_ASSIGN_OR_RETURN(left, done(std::move(out)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::negation() {
  if (!tokens_.is_name("not")) return comparison();
  const DepthGuard guard(nesting_);
  if (guard.too_deep()) return too_deep();
  ExprPtr out = node(ExprKind::kUnary, tokens_.next().text);
  FORERUN_ASSIGN_OR_RETURN(ExprPtr operand, negation());
  out->args.push_back(std::move(operand));
  return done(std::move(out));
}

Result<ExprPtr> ExpressionParser::comparison() {
  ExprPtr out = node(ExprKind::kCompare);
  FORERUN_ASSIGN_OR_RETURN(ExprPtr first, left_chain(0));
  out->args.push_back(std::move(first));
  while (true) {
    static constexpr std::string_view kOrders[] = {"==", "!=", "<", "<=", ">", ">="};
    std::string found;
    for (const std::string_view order : kOrders) {
      if (tokens_.is_operator(order)) found = order;
    }
    if (!found.empty()) {
      tokens_.next();
    } else if (tokens_.take_name("in")) {
      found = "in";
    } else if (tokens_.is_name("not") && tokens_.peek(1).kind == TokenKind::kName &&
               tokens_.peek(1).text == "in") {
      tokens_.next();
      tokens_.next();
      found = "not in";
    } else {
      break;
    }
    FORERUN_ASSIGN_OR_RETURN(ExprPtr next, left_chain(0));
    out->operators.push_back(std::move(found));
    out->args.push_back(std::move(next));
  }
  if (out->operators.empty()) return std::move(out->args[0]);
  return done(std::move(out));
}

Result<ExprPtr> ExpressionParser::left_chain(int level) {
  if (level == kLevels) return unary();
  FORERUN_ASSIGN_OR_RETURN(ExprPtr left, left_chain(level + 1));
  while (true) {
    const std::vector<std::string_view>& accepted = operators_of(level);
    if (!tokens_.is(TokenKind::kOperator) ||
        std::find(accepted.begin(), accepted.end(), tokens_.peek().text) == accepted.end()) {
      return left;
    }
    ExprPtr out = node(ExprKind::kBinary, tokens_.next().text);
    FORERUN_ASSIGN_OR_RETURN(ExprPtr right, left_chain(level + 1));
    out->args.push_back(std::move(left));
    out->args.push_back(std::move(right));
    FORERUN_ASSIGN_OR_RETURN(left, done(std::move(out)));
  }
}

Result<ExprPtr> ExpressionParser::unary(bool with_filters) {
  const DepthGuard guard(nesting_);
  if (guard.too_deep()) return too_deep();
  ExprPtr value;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    value = node(ExprKind::kUnary, tokens_.next().text);
    FORERUN_ASSIGN_OR_RETURN(ExprPtr operand, unary(false));
    value->args.push_back(std::move(operand));
    FORERUN_ASSIGN_OR_RETURN(value, done(std::move(value)));
  } else {
    FORERUN_ASSIGN_OR_RETURN(value, primary());
  }
  FORERUN_ASSIGN_OR_RETURN(value, postfix(std::move(value)));
  if (!with_filters) return value;
  return postfix_filters(std::move(value));
}

Result<ExprPtr> ExpressionParser::primary() {
  ExprPtr out = node(ExprKind::kLiteral);
  if (tokens_.is_operator("(")) return parenthesized();
  if (tokens_.is_operator("[")) return list_literal();
  if (tokens_.is_operator("{")) return dict_literal();
  if (tokens_.is(TokenKind::kString)) {
    std::string text = tokens_.next().text;
    while (tokens_.is(TokenKind::kString)) text += tokens_.next().text;
    out->value = Value::string(std::move(text));
  } else if (tokens_.is(TokenKind::kInteger)) {
    const std::optional<Value> number = parsed_integer(tokens_.peek().text, 0);
    if (!number) return tokens_.unexpected("an integer of up to 4300 digits");
    tokens_.next();
    out->value = *number;
  } else if (tokens_.is(TokenKind::kFloat)) {
    const std::optional<double> number = parsed_real(tokens_.peek().text);
    if (!number) return tokens_.unexpected("a number");
    tokens_.next();
    out->value = Value::real(*number);
  } else if (tokens_.is(TokenKind::kName)) {
    const std::string name = tokens_.next().text;
    if (name == "true" || name == "True") {
      out->value = Value::boolean(true);
    } else if (name == "false" || name == "False") {
      out->value = Value::boolean(false);
    } else if (name == "none" || name == "None") {
      out->value = Value::none();
    } else {
      out->kind = ExprKind::kName;
      out->name = name;
    }
  } else {
    return tokens_.unexpected("an expression");
  }
  return out;
}

Result<ExprPtr> ExpressionParser::parenthesized() {
  const Token open = tokens_.next();
  if (tokens_.take_operator(")")) return done(node(ExprKind::kTuple));
  FORERUN_ASSIGN_OR_RETURN(ExprPtr out, tuple());
  FORERUN_RETURN_IF_ERROR(tokens_.expect_operator(")"));
  return out;
}

Result<ExprPtr> ExpressionParser::list_literal() {
  ExprPtr out = node(ExprKind::kList);
  tokens_.next();
  while (!tokens_.take_operator("]")) {
    FORERUN_ASSIGN_OR_RETURN(ExprPtr item, expression());
    out->args.push_back(std::move(item));
    if (!tokens_.is_operator("]")) FORERUN_RETURN_IF_ERROR(tokens_.expect_operator(","));
  }
  return done(std::move(out));
}

Result<ExprPtr> ExpressionParser::dict_literal() {
  ExprPtr out = node(ExprKind::kDict);
  tokens_.next();
  while (!tokens_.take_operator("}")) {
    FORERUN_ASSIGN_OR_RETURN(ExprPtr key, expression());
    FORERUN_RETURN_IF_ERROR(tokens_.expect_operator(":"));
    FORERUN_ASSIGN_OR_RETURN(ExprPtr value, expression());
    out->args.push_back(std::move(key));
    out->args.push_back(std::move(value));
    if (!tokens_.is_operator("}")) FORERUN_RETURN_IF_ERROR(tokens_.expect_operator(","));
  }
  return done(std::move(out));
}

Result<ExprPtr> ExpressionParser::postfix(ExprPtr value) {
  while (true) {
    if (tokens_.is_operator(".")) {
      tokens_.next();
      const bool is_index = tokens_.is(TokenKind::kInteger);
      ExprPtr out = node(is_index ? ExprKind::kItem : ExprKind::kAttribute);
      out->args.push_back(std::move(value));
      if (is_index) {
        FORERUN_ASSIGN_OR_RETURN(ExprPtr index, primary());
        out->args.push_back(std::move(index));
      } else {
        FORERUN_ASSIGN_OR_RETURN(out->name, tokens_.expect_name());
      }
      FORERUN_ASSIGN_OR_RETURN(value, done(std::move(out)));
    } else if (tokens_.is_operator("[")) {
      FORERUN_ASSIGN_OR_RETURN(value, subscript(std::move(value)));
    } else if (tokens_.is_operator("(")) {
      ExprPtr out = node(ExprKind::kCall);
      out->args.push_back(std::move(value));
      FORERUN_RETURN_IF_ERROR(arguments(*out));
      FORERUN_ASSIGN_OR_RETURN(value, done(std::move(out)));
    } else {
      return value;
    }
  }
}

// Parses a[1], a[1:2:3], a[1, 2] and a[]; an index of the latter two forms is a tuple.
Result<ExprPtr> ExpressionParser::subscript(ExprPtr value) {
  ExprPtr out = node(ExprKind::kItem);
  tokens_.next();
  out->args.push_back(std::move(value));
  ExprPtr keys = node(ExprKind::kTuple);
  bool is_tuple = tokens_.is_operator("]");
  while (!tokens_.is_operator("]")) {
    if (!tokens_.is_operator(":")) {
      FORERUN_ASSIGN_OR_RETURN(ExprPtr key, expression());
      keys->args.push_back(std::move(key));
    } else {
      keys->args.push_back(nullptr);
    }
    if (tokens_.is_operator(":")) break;
    if (!tokens_.take_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && tokens_.is_operator(":")) {
    out->kind = ExprKind::kSlice;
    out->args.push_back(std::move(keys->args[0]));
    for (int part = 0; part < 2 && tokens_.take_operator(":"); ++part) {
      ExprPtr bound;
      if (!tokens_.is_operator(":") && !tokens_.is_operator("]")) {
        FORERUN_ASSIGN_OR_RETURN(bound, expression());
      }
      out->args.push_back(std::move(bound));
    }
    out->args.resize(4);
  } else if (is_tuple) {
    FORERUN_ASSIGN_OR_RETURN(keys, done(std::move(keys)));
    out->args.push_back(std::move(keys));
  } else {
    out->args.push_back(std::move(keys->args[0]));
  }
  FORERUN_RETURN_IF_ERROR(tokens_.expect_operator("]"));
  return done(std::move(out));
}

Status ExpressionParser::arguments(Expr& call) {
  FORERUN_RETURN_IF_ERROR(tokens_.expect_operator("("));
  while (!tokens_.take_operator(")")) {
    if (tokens_.is_operator("*") || tokens_.is_operator("**")) {
      ExprPtr& rest = tokens_.next().text == "*" ? call.rest : call.named_rest;
      if (rest) return tokens_.fail("found * or ** twice in a call; accepted: each once");
      FORERUN_ASSIGN_OR_RETURN(rest, expression());
      if (!tokens_.is_operator(")")) FORERUN_RETURN_IF_ERROR(tokens_.expect_operator(","));
      continue;
    }
    const bool is_named = tokens_.is(TokenKind::kName) &&
                          tokens_.peek(1).kind == TokenKind::kOperator &&
                          tokens_.peek(1).text == "=";
    if (is_named) {
      std::string name = tokens_.next().text;
      tokens_.next();
      FORERUN_ASSIGN_OR_RETURN(ExprPtr value, expression());
      call.named.emplace_back(std::move(name), std::move(value));
    } else {
      FORERUN_ASSIGN_OR_RETURN(ExprPtr value, expression());
      call.args.push_back(std::move(value));
    }
    if (!tokens_.is_operator(")")) FORERUN_RETURN_IF_ERROR(tokens_.expect_operator(","));
  }
  return {};
}

Result<ExprPtr> ExpressionParser::postfix_filters(ExprPtr value) {
  while (true) {
    if (tokens_.take_operator("|")) {
      FORERUN_ASSIGN_OR_RETURN(value, one_filter(std::move(value)));
    } else if (tokens_.is_name("is")) {
      FORERUN_ASSIGN_OR_RETURN(value, test(std::move(value)));
    } else if (tokens_.is_operator("(") || tokens_.is_operator("[") || tokens_.is_operator(".")) {
      FORERUN_ASSIGN_OR_RETURN(value, postfix(std::move(value)));
    } else {
      return value;
    }
  }
}

Result<ExprPtr> ExpressionParser::one_filter(ExprPtr value) {
  ExprPtr out = node(ExprKind::kFilter);
  FORERUN_ASSIGN_OR_RETURN(out->name, tokens_.expect_name());
  out->args.push_back(std::move(value));
  if (tokens_.is_operator("(")) FORERUN_RETURN_IF_ERROR(arguments(*out));
  return done(std::move(out));
}

Result<ExprPtr> ExpressionParser::filters(ExprPtr value, bool starts_with_name) {
  if (starts_with_name) {
    FORERUN_ASSIGN_OR_RETURN(value, one_filter(std::move(value)));
  }
  while (tokens_.take_operator("|")) {
    FORERUN_ASSIGN_OR_RETURN(value, one_filter(std::move(value)));
  }
  return value;
}

Result<ExprPtr> ExpressionParser::test(ExprPtr value) {
  tokens_.next();
  const bool negated = tokens_.take_name("not");
  ExprPtr out = node(ExprKind::kTest);
  FORERUN_ASSIGN_OR_RETURN(out->name, tokens_.expect_name());
  out->args.push_back(std::move(value));
  const Token& next = tokens_.peek();
  const bool is_word = next.kind == TokenKind::kName;
  const bool ends = is_word && (next.text == "else" || next.text == "or" || next.text == "and" ||
                                next.text == "if" || next.text == "not" || next.text == "in");
  if (tokens_.is_operator("(")) {
    FORERUN_RETURN_IF_ERROR(arguments(*out));
  } else if ((is_word && !ends) || next.kind == TokenKind::kString ||
             next.kind == TokenKind::kInteger || next.kind == TokenKind::kFloat ||
             tokens_.is_operator("[") || tokens_.is_operator("{")) {
    if (tokens_.is_name("is")) {
      return tokens_.fail("found a test of a test; accepted: A is TEST and A is TEST");
    }
    FORERUN_ASSIGN_OR_RETURN(ExprPtr arg, primary());
    FORERUN_ASSIGN_OR_RETURN(arg, postfix(std::move(arg)));
    out->args.push_back(std::move(arg));
  }
  FORERUN_ASSIGN_OR_RETURN(out, done(std::move(out)));
  if (!negated) return out;
  ExprPtr negation = node(ExprKind::kUnary, "not");
  negation->args.push_back(std::move(out));
  return done(std::move(negation));
}

}  // namespace forerun::text::jinja
