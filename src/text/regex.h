// A compiled regular expression in tokenizer.json's syntax (Oniguruma's), run by PCRE2.
//
// Immutable after compile; matching is thread-safe since every caller brings its own Matcher. Text
// must be well-formed UTF-8. Work is limited: a pattern that backtracks too much fails with
// kResourceExhausted instead of hanging.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::text {

struct MatchSpan {
  size_t begin = 0;  // in bytes
  size_t end = 0;
};

class Regex {
 public:
  // Working memory of one caller: match data and the JIT's stack. Not thread-safe; one object
  // serves all expressions.
  class Matcher {
   public:
    Matcher();
    ~Matcher();
    Matcher(Matcher&&) noexcept;
    Matcher& operator=(Matcher&&) noexcept;

   private:
    friend class Regex;
    struct State;
    std::unique_ptr<State> state_;
  };

  // `pattern` is in Oniguruma's syntax. \s, \w and \d get Oniguruma's Unicode meaning; constructs
  // with another meaning in PCRE2 (\h, nested classes, class intersection, inline flags other than
  // i and x) are refused by name.
  static Result<Regex> compile(std::string_view pattern);

  // Compiles an expression that matches `text` literally.
  static Result<Regex> compile_literal(std::string_view text);

  // Returns the leftmost match in text[from, ...); look-behind sees text[0, from). No value: no
  // match.
  Result<std::optional<MatchSpan>> find(std::string_view text, size_t from, Matcher& matcher) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  static Result<Regex> compile_translated(const std::string& translated, std::string_view shown);
  std::shared_ptr<const Code> code_;
};

}  // namespace forerun::text
