// Template source to tokens, white-space control included.
//
// Works as transformers sets Jinja up: trim_blocks and lstrip_blocks on, one newline at the end of
// the source dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"

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

// "line N" of a message is a line of `source`.
Result<std::vector<Token>> lex(std::string_view source);

}  // namespace forerun::text::jinja
