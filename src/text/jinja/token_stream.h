// A cursor over tokens, with the errors both parsers share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"
#include "text/jinja/lexer.h"

namespace forerun::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // The last token is kEnd and is never passed.
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
  // Whether `name` stands among the tokens from `position` to here.
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

}  // namespace forerun::text::jinja
