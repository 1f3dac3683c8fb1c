#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "grammar/pattern_tree.h"
#include "text/utf8.h"

namespace forerun::grammar {
namespace {

constexpr uint32_t kMaxPatternRepeats = 10'000;

CodePointSet digit_chars() { return CodePointSet('0', '9'); }

CodePointSet word_chars() {
  CodePointSet set('0', '9');
  set.add('A', 'Z');
  set.add('a', 'z');
  set.add('_', '_');
  return set;
}

CodePointSet line_end_chars() {
  CodePointSet set('\n', '\n');
  set.add('\r', '\r');
  set.add(0x2028, 0x2029);
  return set;
}

CodePointSet space_chars() {
  CodePointSet set('\t', '\r');
  for (const uint32_t c : {0x20u, 0xa0u, 0x1680u, 0x202fu, 0x205fu, 0x3000u, 0xfeffu})
    set.add(c, c);
  set.add(0x2000, 0x200a);
  set.add(0x2028, 0x2029);
  return set;
}

class Parser {
 public:
  Parser(std::string_view pattern, const GrammarLimits& limits)
      : pattern_(pattern), limits_(limits) {}

  Result<PatternTree> parse() {
    FORERUN_ASSIGN_OR_RETURN(tree_.root, parse_choice(0));
    if (at_ < pattern_.size()) return refuse("\")\" without \"(\"", "balanced groups");
    return std::move(tree_);
  }

 private:
  using Kind = PatternNode::Kind;

  char peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  bool take(std::string_view text) {
    if (pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  Status refuse(const std::string& found, const std::string& accepted,
                StatusCode code = StatusCode::kInvalidArgument) const {
    return Status(code, "pattern: byte " + std::to_string(at_) + ": found " + found +
                            "; accepted: " + accepted);
  }
  Status refuse_feature(const std::string& name) const {
    return refuse(name, "patterns that are regular expressions: see the list of what is supported",
                  StatusCode::kUnsupported);
  }

  uint32_t add(PatternNode node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(tree_.nodes.size() - 1);
  }
  uint32_t add_chars(CodePointSet chars) {
    PatternNode node;
    node.kind = Kind::kChars;
    node.chars = std::move(chars);
    return add(std::move(node));
  }

  Result<uint32_t> parse_choice(int depth) {
    if (depth > limits_.max_depth) {
      return refuse("groups nested deeper", std::to_string(limits_.max_depth) + " levels",
                    StatusCode::kResourceExhausted);
    }
    PatternNode choice;
    choice.kind = Kind::kChoice;
    do {
      FORERUN_ASSIGN_OR_RETURN(const uint32_t part, parse_sequence(depth));
      choice.parts.push_back(part);
    } while (take("|"));
    return add(std::move(choice));
  }

  Result<uint32_t> parse_sequence(int depth) {
    PatternNode sequence;
    while (at_ < pattern_.size() && peek() != '|' && peek() != ')') {
      FORERUN_ASSIGN_OR_RETURN(uint32_t part, parse_atom(depth));
      FORERUN_RETURN_IF_ERROR(parse_quantifier(part));
      sequence.parts.push_back(part);
    }
    return add(std::move(sequence));
  }

  Result<uint32_t> parse_atom(int depth) {
    if (take("^") || take("$")) {
      PatternNode anchor;
      anchor.kind = pattern_[at_ - 1] == '^' ? Kind::kBegin : Kind::kEnd;
      return add(std::move(anchor));
    }
    if (take(".")) return add_chars(line_end_chars().complement());
    if (take("[")) return parse_class();
    if (peek() == '(') return parse_group(depth);
    if (peek() == '*' || peek() == '+' || peek() == '?') {
      return refuse("a quantifier with nothing before it", "an atom before it");
    }
    if (peek() == '\\') return parse_escape();
    const text::CodePoint c = text::first_code_point(pattern_.substr(at_));
    at_ += c.len_bytes;
    return add_chars(CodePointSet(c.value, c.value));
  }

  Result<uint32_t> parse_group(int depth) {
    if (peek(1) == '?') {
      const std::string_view rest = pattern_.substr(at_ + 2);
      if (rest.starts_with("=") || rest.starts_with("!")) return refuse_feature("a look-ahead");
      if (rest.starts_with("<=") || rest.starts_with("<!")) return refuse_feature("a look-behind");
      if (rest.starts_with("<")) {
        const size_t end = pattern_.find('>', at_);
        if (end == std::string_view::npos)
          return refuse("a group's name without \">\"", "(?<name>");
        at_ = end + 1;
      } else if (rest.starts_with(":")) {
        at_ += 3;
      } else {
        return refuse_feature("flags or another extended group");
      }
    } else {
      ++at_;
    }
    FORERUN_ASSIGN_OR_RETURN(const uint32_t group, parse_choice(depth + 1));
    if (!take(")")) return refuse("a group without its end", "\")\"");
    return group;
  }

  Result<uint32_t> parse_escape() {
    if (peek(1) >= '1' && peek(1) <= '9') return refuse_feature("a back-reference");
    if (peek(1) == 'k') return refuse_feature("a back-reference");
    if (peek(1) == 'b' || peek(1) == 'B') return refuse_feature("a word boundary");
    FORERUN_ASSIGN_OR_RETURN(CodePointSet chars, parse_escaped_chars());
    return add_chars(std::move(chars));
  }

  // Reads an escape from its backslash on; returns the characters that it matches.
  Result<CodePointSet> parse_escaped_chars() {
    const char c = peek(1);
    const auto set = [&](CodePointSet chars) {
      at_ += 2;
      return chars;
    };
    const auto one = [&](uint32_t value) { return set(CodePointSet(value, value)); };
    switch (c) {
      case 'd':
        return set(digit_chars());
      case 'D':
        return set(digit_chars().complement());
      case 'w':
        return set(word_chars());
      case 'W':
        return set(word_chars().complement());
      case 's':
        return set(space_chars());
      case 'S':
        return set(space_chars().complement());
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        if (peek(2) >= '0' && peek(2) <= '9') return refuse_feature("an octal escape");
        return one(0);
      case 'x':
        return parse_hex(2, 2);
      case 'u':
        return peek(2) == '{' ? parse_hex(3, 0) : parse_hex(2, 4);
      case 'p':
      case 'P':
        return refuse_feature("a Unicode property");
      default:
        break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (static_cast<uint8_t>(c) >= 0x80) {
      ++at_;
      const text::CodePoint wide = text::first_code_point(pattern_.substr(at_));
      at_ += wide.len_bytes;
      return CodePointSet(wide.value, wide.value);
    }
    if (at_ + 1 >= pattern_.size() || letter || (c >= '0' && c <= '9')) {
      return refuse("the escape \\" + std::string(at_ + 1 < pattern_.size() ? 1 : 0, c),
                    "\\d \\w \\s \\t \\n \\r \\f \\v \\xHH \\uHHHH and escaped punctuation");
    }
    return one(static_cast<uint8_t>(c));
  }

  // Reads hexadecimal digits `skip` bytes ahead; `digits` 0: up to "}".
  Result<CodePointSet> parse_hex(size_t skip, size_t digits) {
    size_t end = at_ + skip;
    uint64_t value = 0;
    size_t count = 0;
    for (; end < pattern_.size() && (digits == 0 ? count < 8 : count < digits); ++end, ++count) {
      const char c = pattern_[end];
      if (c >= '0' && c <= '9') {
        value = value * 16 + static_cast<uint64_t>(c - '0');
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        value = value * 16 + static_cast<uint64_t>((c | 0x20) - 'a' + 10);
      } else {
        break;
      }
    }
    const bool closed = digits != 0 || (end < pattern_.size() && pattern_[end] == '}');
    if (count == 0 || (digits != 0 && count != digits) || !closed || value > kLastCodePoint) {
      return refuse("an escape without its digits", "\\xHH, \\uHHHH or \\u{H...}");
    }
    if (value >= 0xd800 && value <= 0xdfff) {
      return refuse("a surrogate", "characters beyond U+FFFF as they are or as \\u{H...}");
    }
    at_ = end + (digits == 0 ? 1 : 0);
    return CodePointSet(static_cast<uint32_t>(value), static_cast<uint32_t>(value));
  }

  Result<uint32_t> parse_class() {
    const bool negated = take("^");
    CodePointSet chars;
    while (peek() != ']') {
      if (at_ >= pattern_.size()) return refuse("a class without its end", "\"]\"");
      if (chars.ranges().size() > kMaxClassRanges) {
        return refuse("a class of more ranges", std::to_string(kMaxClassRanges) + " of them",
                      StatusCode::kResourceExhausted);
      }
      FORERUN_ASSIGN_OR_RETURN(const CodePointSet first, parse_class_chars());
      if (peek() != '-' || peek(1) == ']' || peek(1) == '\0') {
        chars.add(first);
        continue;
      }
      ++at_;
      FORERUN_ASSIGN_OR_RETURN(const CodePointSet last, parse_class_chars());
      const auto single = [](const CodePointSet& set) {
        return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
      };
      // ECMAScript without flags: a hyphen beside \d or \w is a literal.
      if (first.ranges().size() > 0 && last.ranges().size() > 0 &&
          (!single(first) || !single(last))) {
        chars.add(first);
        chars.add('-', '-');
        chars.add(last);
        continue;
      }
      if (!single(first) || !single(last) || first.ranges()[0].first > last.ranges()[0].first) {
        return refuse("a range that is none", "first-last, two characters in order");
      }
      chars.add(first.ranges()[0].first, last.ranges()[0].first);
    }
    ++at_;
    return add_chars(negated ? chars.complement() : chars);
  }

  Result<CodePointSet> parse_class_chars() {
    if (peek() == '\\' && peek(1) == 'b') {
      at_ += 2;
      return CodePointSet('\b', '\b');
    }
    if (peek() == '\\') return parse_escaped_chars();
    const text::CodePoint c = text::first_code_point(pattern_.substr(at_));
    at_ += c.len_bytes;
    return CodePointSet(c.value, c.value);
  }

  Status parse_quantifier(uint32_t& part) {
    uint32_t min = 0, max = UINT32_MAX;
    if (take("+")) {
      min = 1;
    } else if (take("?")) {
      max = 1;
    } else if (peek() == '{' && peek(1) >= '0' && peek(1) <= '9') {
      const size_t begin = at_++;
      const std::optional<uint32_t> first = take_count();
      if (first) min = max = *first;
      if (first && take(",")) max = peek() == '}' ? UINT32_MAX : take_count().value_or(0);
      if (!first || !take("}") || max < min) {
        at_ = begin;
        return refuse("\"{\" that begins no quantifier",
                      "{m}, {m,} or {m,n} with n of at least m and counts up to " +
                          std::to_string(kMaxPatternRepeats) + ", or \\{");
      }
    } else if (!take("*")) {
      return {};
    }
    take("?");  // a lazy quantifier matches the same texts
    const bool counted = peek() == '{' && peek(1) >= '0' && peek(1) <= '9';
    if (peek() == '*' || peek() == '+' || peek() == '?' || counted) {
      return refuse("two quantifiers in a row", "one");
    }
    PatternNode repeat;
    repeat.kind = Kind::kRepeat;
    repeat.min = min;
    repeat.max = max;
    repeat.parts = {part};
    part = add(std::move(repeat));
    return {};
  }

  std::optional<uint32_t> take_count() {
    uint32_t count = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      count = count * 10 + static_cast<uint32_t>(peek() - '0');
      if (count > kMaxPatternRepeats) return std::nullopt;
    }
    return at_ == begin ? std::nullopt : std::optional(count);
  }

  std::string_view pattern_;
  const GrammarLimits& limits_;
  size_t at_ = 0;
  PatternTree tree_;
};

}  // namespace

Result<PatternTree> parse_pattern(std::string_view pattern, const GrammarLimits& limits) {
  if (!text::is_well_formed(pattern)) {
    return Status(StatusCode::kInvalidArgument,
                  "pattern: found bytes that are not UTF-8; accepted: UTF-8 text");
  }
  return Parser(pattern, limits).parse();
}

}  // namespace forerun::grammar
