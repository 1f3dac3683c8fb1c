// Parses tokens to statements; expressions are in expression_parser.cc.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/status_macros.h"
#include "text/jinja/syntax.h"

namespace forerun::text::jinja {
namespace {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Result<Body> run() {
    Body out;
    FORERUN_RETURN_IF_ERROR(body({}, out));
    if (!tokens_.is(TokenKind::kEnd)) return tokens_.unexpected("a statement");
    return out;
  }

 private:
  // Parses statements up to a block that begins with one of `ends`, and reads its "{%" and word;
  // without `ends`, up to the end of the template.
  Status body(std::initializer_list<std::string_view> ends, Body& out) {
    if (++nesting_ > kMaxStatementDepth) {
      const std::string limit = std::to_string(kMaxStatementDepth);
      return tokens_.fail(
          "found statements nested more than " + limit + " deep; accepted: at most " + limit,
          StatusCode::kUnsupported);
    }
    while (true) {
      if (tokens_.is(TokenKind::kEnd)) {
        if (ends.size() == 0) break;
        return tokens_.unexpected("{% " + std::string(*(ends.end() - 1)) + " %}");
      }
      if (tokens_.is(TokenKind::kText)) {
        Statement text;
        text.line = tokens_.peek().line;
        text.text = tokens_.next().text;
        out.push_back(std::move(text));
      } else if (tokens_.is(TokenKind::kOutputBegin)) {
        tokens_.next();
        Statement output = make(StatementKind::kOutput);
        FORERUN_ASSIGN_OR_RETURN(output.expr, expressions_.tuple());
        if (!tokens_.is(TokenKind::kOutputEnd)) return tokens_.unexpected("}}");
        tokens_.next();
        out.push_back(std::move(output));
      } else {
        tokens_.next();  // {%
        FORERUN_ASSIGN_OR_RETURN(end_word_, tokens_.expect_name());
        if (std::find(ends.begin(), ends.end(), end_word_) != ends.end()) break;
        FORERUN_RETURN_IF_ERROR(statement(end_word_, out));
      }
    }
    --nesting_;
    return {};
  }

  Statement make(StatementKind kind) const {
    Statement out;
    out.kind = kind;
    out.line = tokens_.peek().line;
    return out;
  }

  Status end_of_block() {
    if (!tokens_.is(TokenKind::kBlockEnd)) return tokens_.unexpected("%}");
    tokens_.next();
    return {};
  }

  Status statement(const std::string& word, Body& out) {
    if (word == "if") return if_statement(out);
    if (word == "for") return for_statement(out);
    if (word == "set") return set_statement(out);
    if (word == "macro") return macro_statement(out);
    if (word == "call") return call_statement(out);
    if (word == "filter") return filter_statement(out);
    if (word == "generation") return scope_statement("endgeneration", out);
    if (word == "with") return with_statement(out);
    if (word == "break" || word == "continue") {
      if (loops_ == 0) {
        return tokens_.fail("found " + word + " outside a loop; accepted: " + word + " within one");
      }
      out.push_back(make(word == "break" ? StatementKind::kBreak : StatementKind::kContinue));
      return end_of_block();
    }
    return tokens_.fail(
        "found statement " + word +
            "; accepted: if, for, set, macro, call, filter, generation, with, break, continue",
        StatusCode::kUnsupported);
  }

  Status if_statement(Body& out) {
    Statement made = make(StatementKind::kIf);
    std::string word = "elif";
    while (word == "elif") {
      Branch branch;
      FORERUN_ASSIGN_OR_RETURN(branch.condition, expressions_.tuple());
      FORERUN_RETURN_IF_ERROR(end_of_block());
      FORERUN_RETURN_IF_ERROR(body({"elif", "else", "endif"}, branch.body));
      word = end_word_;
      made.branches.push_back(std::move(branch));
    }
    if (word == "else") {
      FORERUN_RETURN_IF_ERROR(end_of_block());
      FORERUN_RETURN_IF_ERROR(body({"endif"}, made.otherwise));
    }
    out.push_back(std::move(made));
    return end_of_block();
  }

  Status for_statement(Body& out) {
    Statement made = make(StatementKind::kFor);
    FORERUN_RETURN_IF_ERROR(targets("in", made.targets));
    if (!tokens_.take_name("in")) return tokens_.unexpected("in");
    FORERUN_ASSIGN_OR_RETURN(made.expr, expressions_.tuple(false));
    if (tokens_.take_name("if")) {
      FORERUN_ASSIGN_OR_RETURN(made.condition, expressions_.expression());
    }
    if (tokens_.is_name("recursive")) {
      return tokens_.fail("found a recursive loop; accepted: plain loops",
                          StatusCode::kUnsupported);
    }
    FORERUN_RETURN_IF_ERROR(end_of_block());
    ++loops_;
    FORERUN_RETURN_IF_ERROR(body({"else", "endfor"}, made.body));
    --loops_;
    if (end_word_ == "else") {
      FORERUN_RETURN_IF_ERROR(end_of_block());
      FORERUN_RETURN_IF_ERROR(body({"endfor"}, made.otherwise));
    }
    out.push_back(std::move(made));
    return end_of_block();
  }

  Status targets(std::string_view end, std::vector<Target>& out) {
    const bool parenthesized = tokens_.take_operator("(");
    do {
      if (tokens_.is_name(end) || tokens_.is_operator(end) || tokens_.is_operator(")")) break;
      Target target;
      FORERUN_ASSIGN_OR_RETURN(target.name, tokens_.expect_name());
      if (tokens_.take_operator(".")) {
        FORERUN_ASSIGN_OR_RETURN(target.member, tokens_.expect_name());
      }
      out.push_back(std::move(target));
    } while (tokens_.take_operator(","));
    if (out.empty()) return tokens_.unexpected("a name");
    return parenthesized ? tokens_.expect_operator(")") : Status();
  }

  Status set_statement(Body& out) {
    Statement made = make(StatementKind::kSet);
    FORERUN_RETURN_IF_ERROR(targets("=", made.targets));
    if (tokens_.take_operator("=")) {
      FORERUN_ASSIGN_OR_RETURN(made.expr, expressions_.tuple());
      out.push_back(std::move(made));
      return end_of_block();
    }
    if (made.targets.size() != 1) return tokens_.unexpected("=");
    made.kind = StatementKind::kSetBlock;
    FORERUN_ASSIGN_OR_RETURN(made.expr, expressions_.filters(nullptr));
    FORERUN_RETURN_IF_ERROR(end_of_block());
    FORERUN_RETURN_IF_ERROR(body({"endset"}, made.body));
    out.push_back(std::move(made));
    return end_of_block();
  }

  Status macro_statement(Body& out) {
    Statement made = make(StatementKind::kMacro);
    FORERUN_ASSIGN_OR_RETURN(made.text, tokens_.expect_name());
    FORERUN_RETURN_IF_ERROR(parameters(made));
    FORERUN_RETURN_IF_ERROR(end_of_block());
    FORERUN_RETURN_IF_ERROR(macro_body("endmacro", made));
    if (tokens_.is_name(made.text)) tokens_.next();
    out.push_back(std::move(made));
    return end_of_block();
  }

  // Parses {% call(a, b) macro(...) %}.
  Status call_statement(Body& out) {
    Statement made = make(StatementKind::kCall);
    made.text = "caller";
    if (tokens_.is_operator("(")) FORERUN_RETURN_IF_ERROR(parameters(made));
    FORERUN_ASSIGN_OR_RETURN(made.expr, expressions_.expression());
    if (made.expr->kind != ExprKind::kCall) return tokens_.unexpected("a call of a macro");
    FORERUN_RETURN_IF_ERROR(end_of_block());
    FORERUN_RETURN_IF_ERROR(macro_body("endcall", made));
    out.push_back(std::move(made));
    return end_of_block();
  }

  // Parses (a, b = 1) of a macro or call block.
  Status parameters(Statement& made) {
    FORERUN_RETURN_IF_ERROR(tokens_.expect_operator("("));
    while (!tokens_.take_operator(")")) {
      Target parameter;
      FORERUN_ASSIGN_OR_RETURN(parameter.name, tokens_.expect_name());
      ExprPtr fallback;
      if (tokens_.take_operator("=")) {
        FORERUN_ASSIGN_OR_RETURN(fallback, expressions_.expression());
      }
      made.targets.push_back(std::move(parameter));
      made.defaults.push_back(std::move(fallback));
      if (!tokens_.is_operator(")")) FORERUN_RETURN_IF_ERROR(tokens_.expect_operator(","));
    }
    return {};
  }

  Status macro_body(std::string_view end, Statement& made) {
    const size_t begin = tokens_.position();
    FORERUN_RETURN_IF_ERROR(body({end}, made.body));
    made.uses_varargs = tokens_.names_since(begin, "varargs");
    made.uses_kwargs = tokens_.names_since(begin, "kwargs");
    made.uses_caller = tokens_.names_since(begin, "caller");
    return {};
  }

  Status filter_statement(Body& out) {
    Statement made = make(StatementKind::kFilter);
    FORERUN_ASSIGN_OR_RETURN(made.expr, expressions_.filters(nullptr, true));
    FORERUN_RETURN_IF_ERROR(end_of_block());
    FORERUN_RETURN_IF_ERROR(body({"endfilter"}, made.body));
    out.push_back(std::move(made));
    return end_of_block();
  }

  Status scope_statement(std::string_view end, Body& out) {
    Statement made = make(StatementKind::kScope);
    FORERUN_RETURN_IF_ERROR(end_of_block());
    FORERUN_RETURN_IF_ERROR(body({end}, made.body));
    out.push_back(std::move(made));
    return end_of_block();
  }

  Status with_statement(Body& out) {
    Statement made = make(StatementKind::kWith);
    while (!tokens_.is(TokenKind::kBlockEnd)) {
      Target target;
      FORERUN_ASSIGN_OR_RETURN(target.name, tokens_.expect_name());
      made.targets.push_back(std::move(target));
      FORERUN_RETURN_IF_ERROR(tokens_.expect_operator("="));
      FORERUN_ASSIGN_OR_RETURN(ExprPtr value, expressions_.expression());
      made.defaults.push_back(std::move(value));
      if (!tokens_.take_operator(",")) break;
    }
    FORERUN_RETURN_IF_ERROR(end_of_block());
    FORERUN_RETURN_IF_ERROR(body({"endwith"}, made.body));
    out.push_back(std::move(made));
    return end_of_block();
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::string end_word_;  // the word that ended the last body
  uint32_t nesting_ = 0;
  uint32_t loops_ = 0;
};

}  // namespace

Result<Body> parse_template(std::string_view source) {
  FORERUN_ASSIGN_OR_RETURN(std::vector<Token> tokens, lex(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace forerun::text::jinja
