#include "grammar/grammar_text.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "base/status_macros.h"
#include "grammar/counted_chars.h"
#include "text/utf8.h"

namespace forerun::grammar {
namespace {

constexpr uint32_t kMaxRuleRepeats = 100'000;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class Reader {
 public:
  Reader(std::string_view text, std::span<const NamedRule> defined, const GrammarLimits& limits,
         RuleSet& rules)
      : text_(text), limits_(limits), rules_(rules) {
    for (const NamedRule& rule : defined) names_[rule.name] = {rule.rule, 0};
  }

  Result<RuleId> read() {
    skip_blanks(true);
    while (at_ < text_.size()) FORERUN_RETURN_IF_ERROR(read_rule());
    for (const auto& [name, rule] : names_) {
      if (!rules_.rule_at(rule.id).defined) {
        at_ = rule.first_use;
        return refuse("rule \"" + name + "\"", "the name of a rule that the text defines");
      }
    }
    const auto root = names_.find("root");
    if (root == names_.end()) return refuse("no rule \"root\"", "a rule \"root\", the whole text");
    return root->second.id;
  }

 private:
  struct Name {
    RuleId id = 0;
    size_t first_use = 0;
  };

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  Status refuse(const std::string& found, const std::string& accepted,
                StatusCode code = StatusCode::kInvalidArgument) const {
    size_t line = 1, column = 1;
    for (const char c : text_.substr(0, at_)) {
      column = c == '\n' ? 1 : column + 1;
      line += c == '\n';
    }
    return Status(code, "grammar: line " + std::to_string(line) + ", column " +
                            std::to_string(column) + ": found " + found +
                            "; accepted: " + accepted);
  }
  std::string shown() const {
    if (at_ >= text_.size()) return "the end of the text";
    if (peek() == '\n' || peek() == '\r') return "the end of the line";
    const text::CodePoint c = text::first_code_point(text_.substr(at_));
    return "\"" + std::string(text_.substr(at_, c.len_bytes)) + "\"";
  }

  // Skips blanks and comments, and the ends of lines if asked to.
  void skip_blanks(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n' && text_[at_ + 1] != '\r') ++at_;
      } else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) {
        return;
      }
    }
  }

  Result<std::string> read_name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    if (at_ == begin) return refuse(shown(), "the name of a rule: letters, digits and dashes");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<RuleId> rule_named(const std::string& name, size_t use) {
    const auto [found, inserted] = names_.try_emplace(name);
    if (inserted) {
      if (rules_.rule_count() >= limits_.max_rules) {
        const std::string limit = std::to_string(limits_.max_rules);
        return Status(StatusCode::kResourceExhausted,
                      "grammar: found more than " + limit + " rules; accepted: at most " + limit);
      }
      found->second = {rules_.add_rule(name), use};
    }
    return found->second.id;
  }

  Status read_rule() {
    const size_t begin = at_;
    FORERUN_ASSIGN_OR_RETURN(const std::string name, read_name());
    FORERUN_ASSIGN_OR_RETURN(const RuleId rule, rule_named(name, begin));
    if (rules_.rule_at(rule).defined) {
      at_ = begin;
      return refuse("a second definition of \"" + name + "\"", "one definition, alternatives by |");
    }
    skip_blanks(false);
    if (text_.substr(at_, 3) != "::=") return refuse(shown(), "\"::=\" after a rule's name");
    at_ += 3;
    skip_blanks(true);
    FORERUN_ASSIGN_OR_RETURN(const ExprId expr, read_choice(0));
    rules_.define(rule, expr);
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r') {
      return refuse(shown(), "a literal, a class, a rule's name, a group, | or the line's end");
    }
    skip_blanks(true);
    return {};
  }

  Result<ExprId> read_choice(int depth) {
    if (depth > limits_.max_depth) {
      return refuse("groups nested deeper", std::to_string(limits_.max_depth) + " levels",
                    StatusCode::kResourceExhausted);
    }
    std::vector<ExprId> alternatives;
    do {
      skip_blanks(depth > 0 || !alternatives.empty());
      FORERUN_ASSIGN_OR_RETURN(const ExprId alternative, read_sequence(depth));
      alternatives.push_back(alternative);
    } while (take_bar());
    return rules_.choice(std::move(alternatives));
  }

  // Takes a "|" here or at the beginning of the next non-empty line.
  bool take_bar() {
    const size_t begin = at_;
    skip_blanks(true);
    if (take('|')) return true;
    at_ = begin;
    return false;
  }

  Result<ExprId> read_sequence(int depth) {
    std::vector<ExprId> parts;
    while (at_ < text_.size()) {
      if (rules_.expr_count() > limits_.max_expressions) {
        return refuse("more expressions", std::to_string(limits_.max_expressions) + " of them",
                      StatusCode::kResourceExhausted);
      }
      const char c = peek();
      if (c == '"') {
        FORERUN_ASSIGN_OR_RETURN(const ExprId part, read_literal());
        parts.push_back(part);
      } else if (c == '[') {
        FORERUN_ASSIGN_OR_RETURN(const ExprId part, read_class());
        parts.push_back(part);
      } else if (c == '.') {
        ++at_;
        parts.push_back(rules_.chars(CodePointSet::all()));
      } else if (c == '(') {
        ++at_;
        FORERUN_ASSIGN_OR_RETURN(const ExprId part, read_choice(depth + 1));
        skip_blanks(true);
        if (!take(')')) return refuse(shown(), "\")\" after a group");
        parts.push_back(part);
      } else if (c == '<' || c == '!') {
        return refuse("the name of a token", "the token's text as a literal",
                      StatusCode::kUnsupported);
      } else if (is_name_char(c)) {
        const size_t begin = at_;
        FORERUN_ASSIGN_OR_RETURN(const std::string name, read_name());
        FORERUN_ASSIGN_OR_RETURN(const RuleId rule, rule_named(name, begin));
        parts.push_back(rules_.rule(rule));
      } else {
        break;
      }
      skip_blanks(depth > 0);
      FORERUN_RETURN_IF_ERROR(read_repetitions(parts.back(), depth));
    }
    return parts.size() == 1 ? parts[0] : rules_.sequence(std::move(parts));
  }

  Status read_repetitions(ExprId& part, int depth) {
    while (at_ < text_.size()) {
      uint32_t min = 0, max = kUnbounded;
      if (take('+')) {
        min = 1;
      } else if (take('?')) {
        max = 1;
      } else if (take('{')) {
        FORERUN_ASSIGN_OR_RETURN(min, read_count());
        max = min;
        if (take(',')) {
          max = kUnbounded;
          skip_blanks(false);
          if (peek() != '}') {
            FORERUN_ASSIGN_OR_RETURN(max, read_count());
          }
        }
        if (max < min) return refuse("{m,n} with n below m", "n of at least m");
        if (!take('}')) return refuse(shown(), "\"}\" after a repetition's counts");
      } else if (!take('*')) {
        return {};
      }
      part = repeat_expr(rules_, part, min, max);
      skip_blanks(depth > 0);
    }
    return {};
  }

  Result<uint32_t> read_count() {
    skip_blanks(false);
    uint32_t count = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      count = count * 10 + static_cast<uint32_t>(peek() - '0');
      if (count > kMaxRuleRepeats) {
        return refuse("a larger count", "counts up to " + std::to_string(kMaxRuleRepeats),
                      StatusCode::kResourceExhausted);
      }
    }
    if (at_ == begin) return refuse(shown(), "a count: {m}, {m,} or {m,n}");
    skip_blanks(false);
    return count;
  }

  // Reads one character of a literal or class, with escapes resolved.
  Result<uint32_t> read_char() {
    if (!take('\\')) {
      const text::CodePoint c = text::first_code_point(text_.substr(at_));
      at_ += c.len_bytes;
      return static_cast<uint32_t>(c.value);
    }
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n':
        return uint32_t{'\n'};
      case 'r':
        return uint32_t{'\r'};
      case 't':
        return uint32_t{'\t'};
      case 'x':
        return read_hex(2);
      case 'u':
        return read_hex(4);
      case 'U':
        return read_hex(8);
      case '"':
      case '\\':
      case '[':
      case ']':
      case '-':
      case '^':
      case '/':
        return static_cast<uint32_t>(c);
      default:
        --at_;
        return refuse("the escape \\" + (at_ < text_.size() ? std::string(1, c) : std::string()),
                      R"(\n \r \t \" \\ \[ \] \- \^ \/ \xHH \uHHHH \UHHHHHHHH)");
    }
  }

  Result<uint32_t> read_hex(int digits) {
    uint64_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      uint32_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = static_cast<uint32_t>(c - '0');
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        digit = static_cast<uint32_t>((c | 0x20) - 'a' + 10);
      } else {
        return refuse(shown(), std::to_string(digits) + " hexadecimal digits");
      }
      value = value * 16 + digit;
    }
    if (value > kLastCodePoint || (value >= 0xd800 && value <= 0xdfff)) {
      return refuse("an escape for no character", "U+0000 to U+10FFFF without surrogates");
    }
    return static_cast<uint32_t>(value);
  }

  Result<ExprId> read_literal() {
    ++at_;
    std::string bytes;
    while (peek() != '"' || at_ >= text_.size()) {
      if (at_ >= text_.size() || peek() == '\n') return refuse(shown(), "'\"' after a literal");
      FORERUN_ASSIGN_OR_RETURN(const uint32_t c, read_char());
      text::append_utf8(c, bytes);
    }
    ++at_;
    return rules_.literal(bytes);
  }

  Result<ExprId> read_class() {
    ++at_;
    const bool negated = take('^');
    CodePointSet chars;
    while (peek() != ']' || at_ >= text_.size()) {
      if (at_ >= text_.size() || peek() == '\n') return refuse(shown(), "\"]\" after a class");
      FORERUN_ASSIGN_OR_RETURN(const uint32_t first, read_char());
      uint32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        FORERUN_ASSIGN_OR_RETURN(last, read_char());
      }
      if (last < first) return refuse("a range that runs backwards", "first-last in order");
      chars.add(first, last);
      if (chars.ranges().size() > kMaxClassRanges) {
        return refuse("a class of more ranges", std::to_string(kMaxClassRanges) + " of them",
                      StatusCode::kResourceExhausted);
      }
    }
    ++at_;
    return rules_.chars(negated ? chars.complement() : chars);
  }

  std::string_view text_;
  const GrammarLimits& limits_;
  RuleSet& rules_;
  size_t at_ = 0;
  std::unordered_map<std::string, Name> names_;
};

}  // namespace

Result<RuleId> read_grammar_text(std::string_view text, std::span<const NamedRule> defined,
                                 const GrammarLimits& limits, RuleSet& rules) {
  if (text.size() > limits.max_text_bytes) {
    return Status(StatusCode::kResourceExhausted,
                  "grammar: a text of " + std::to_string(text.size()) + " bytes; accepted: up to " +
                      std::to_string(limits.max_text_bytes));
  }
  if (const size_t well_formed = text::well_formed_prefix(text); well_formed < text.size()) {
    return Status(StatusCode::kInvalidArgument, "grammar: byte " + std::to_string(well_formed) +
                                                    " is not UTF-8; accepted: UTF-8 text");
  }
  return Reader(text, defined, limits, rules).read();
}

}  // namespace forerun::grammar
