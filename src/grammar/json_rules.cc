#include "grammar/json_rules.h"

#include <array>
#include <vector>

#include "text/utf8.h"

namespace forerun::grammar {
namespace {

constexpr uint32_t kMaxIndentSpaces = 32, kMaxIndentTabs = 8;
constexpr uint32_t kMaxJsonDigits = 18, kMaxExponentDigits = 2;

std::string escape_of(uint32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default: {
      constexpr std::string_view kHex = "0123456789abcdef";
      return std::string("\\u00") + kHex[c / 16] + kHex[c % 16];
    }
  }
}

bool needs_escape(uint32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

const CodePointSet& unescaped_chars() {
  static const CodePointSet chars = [] {
    CodePointSet set(0x20, kLastCodePoint);
    return set.minus(CodePointSet('"', '"')).minus(CodePointSet('\\', '\\'));
  }();
  return chars;
}

CodePointSet one_of(std::string_view chars) {
  CodePointSet set;
  for (const char c : chars) set.add(static_cast<uint8_t>(c), static_cast<uint8_t>(c));
  return set;
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (needs_escape(byte)) {
      quoted += escape_of(byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

template <class Make>
ExprId JsonRules::once(std::optional<RuleId>& rule, const char* name, Make make) {
  if (!rule) {
    rule = rules_.add_rule(name, true);
    rules_.define(*rule, make());
  }
  return rules_.rule(*rule);
}

ExprId JsonRules::gap() {
  const ExprId line = once(line_, "line break", [&] {
    const uint32_t times = indents_deeply_ ? 2 : 1;
    const ExprId spaces = rules_.repeat(rules_.literal(" "), 0, times * kMaxIndentSpaces);
    const ExprId tabs = rules_.repeat(rules_.literal("\t"), 0, times * kMaxIndentTabs);
    return rules_.sequence({rules_.literal("\n"), rules_.choice({spaces, tabs})});
  });
  return rules_.optional(rules_.choice({rules_.literal(" "), line}));
}

ExprId JsonRules::space() { return rules_.optional(rules_.literal(" ")); }

ExprId JsonRules::member(std::string_view name, ExprId value) {
  return rules_.sequence({rules_.literal(json_quoted(name) + ":"), space(), value});
}

ExprId JsonRules::value() {
  return once(value_, "JSON value", [&] {
    return rules_.choice({object(), array(), string(), number(), rules_.literal("true"),
                          rules_.literal("false"), rules_.literal("null")});
  });
}

// Returns `item`s separated by commas, followed by the gap before the closing bracket.
ExprId JsonRules::members(ExprId item) {
  const ExprId more = rules_.sequence({rules_.literal(","), gap(), item});
  return rules_.sequence({gap(), item, rules_.repeat(more, 0, kUnbounded), gap()});
}

ExprId JsonRules::object() {
  return once(object_, "JSON object", [&] {
    const ExprId member = rules_.sequence({string(), rules_.literal(":"), space(), value()});
    return rules_.sequence(
        {rules_.literal("{"), rules_.optional(members(member)), rules_.literal("}")});
  });
}

ExprId JsonRules::array() {
  return once(array_, "JSON array", [&] {
    return rules_.sequence(
        {rules_.literal("["), rules_.optional(members(value())), rules_.literal("]")});
  });
}

ExprId JsonRules::any_string_char() {
  const ExprId hex = rules_.chars(one_of("0123456789abcdefABCDEF"));
  const auto code = [&](std::string_view first, std::string_view second) {
    return rules_.sequence({rules_.chars(one_of(first)), rules_.chars(one_of(second)), hex, hex});
  };
  // Four digits that are not a surrogate, or two surrogates that form one character.
  const ExprId plain = code("0123456789abcefABCEF", "0123456789abcdefABCDEF");
  const ExprId below_surrogates = code("dD", "01234567");
  const ExprId pair =
      rules_.sequence({code("dD", "89abAB"), rules_.literal("\\u"), code("dD", "cdefCDEF")});
  const ExprId unicode =
      rules_.sequence({rules_.literal("u"), rules_.choice({plain, below_surrogates, pair})});
  const ExprId escape = rules_.sequence(
      {rules_.literal("\\"), rules_.choice({rules_.chars(one_of("\"\\/bfnrt")), unicode})});
  return rules_.choice({rules_.chars(unescaped_chars()), escape});
}

ExprId JsonRules::string() {
  return once(string_, "JSON string", [&] {
    const ExprId quote = rules_.literal("\"");
    return rules_.sequence({quote, rules_.repeat(any_string_char(), 0, kUnbounded), quote});
  });
}

ExprId JsonRules::string_of_length(uint32_t min, uint32_t max) {
  if (min == 0 && max == kUnbounded) return string();
  if (min > max) return rules_.never();
  const auto [found, inserted] = lengths_.try_emplace({min, max});
  if (inserted) {
    found->second = rules_.add_rule("JSON string of a length");
    CountedLoop loop;
    loop.before = loop.after = rules_.literal("\"");
    loop.body = any_string_char();
    loop.min = min;
    loop.max = max;
    rules_.define(found->second, loop);
  }
  return rules_.rule(found->second);
}

ExprId JsonRules::number() {
  return once(number_, "JSON number", [&] {
    const ExprId digit = rules_.chars(one_of("0123456789"));
    const ExprId whole = rules_.choice(
        {rules_.literal("0"), rules_.sequence({rules_.chars(one_of("123456789")),
                                               rules_.repeat(digit, 0, kMaxJsonDigits - 1)})});
    const ExprId fraction =
        rules_.sequence({rules_.literal("."), rules_.repeat(digit, 1, kMaxJsonDigits)});
    const ExprId exponent =
        rules_.sequence({rules_.chars(one_of("eE")), rules_.optional(rules_.chars(one_of("+-"))),
                         rules_.repeat(digit, 1, kMaxExponentDigits)});
    return rules_.sequence({rules_.optional(rules_.literal("-")), whole, rules_.optional(fraction),
                            rules_.optional(exponent)});
  });
}

ExprId JsonRules::fraction() {
  return once(fraction_, "JSON fraction", [&] {
    // At most 9 digits before the point and 6 after it: 15 significant digits survive a round trip
    // through a double.
    constexpr uint32_t kMaxFractionDigits = 6;
    const ExprId digit = rules_.chars(one_of("0123456789"));
    const ExprId some = rules_.chars(one_of("123456789"));
    const ExprId whole =
        rules_.choice({rules_.literal("0"), rules_.sequence({some, rules_.repeat(digit, 0, 8)})});
    return rules_.sequence({rules_.optional(rules_.literal("-")), whole, rules_.literal("."),
                            rules_.repeat(digit, 0, kMaxFractionDigits - 1), some});
  });
}

const CodePointSet& JsonRules::escaped_chars() {
  static const CodePointSet chars = unescaped_chars().complement();
  return chars;
}

ExprId JsonRules::escape_tails() {
  std::vector<ExprId> tails;
  for (uint32_t c = 0; c < 0x80; ++c) {
    if (needs_escape(c)) tails.push_back(rules_.literal(escape_of(c).substr(1)));
  }
  return rules_.choice(std::move(tails));
}

ExprId JsonRules::string_chars_by_call(const CodePointSet& chars) {
  if (chars.intersection(escaped_chars()) != escaped_chars()) return string_chars(chars);
  const ExprId tails = once(tails_, "JSON escape", [&] { return escape_tails(); });
  return rules_.choice({rules_.chars(chars.intersection(unescaped_chars())),
                        rules_.sequence({rules_.literal("\\"), tails})});
}

ExprId JsonRules::string_chars(const CodePointSet& chars) {
  std::vector<ExprId> kinds;
  if (CodePointSet plain = chars.intersection(unescaped_chars()); !plain.empty()) {
    kinds.push_back(rules_.chars(std::move(plain)));
  }
  for (uint32_t c = 0; c < 0x80; ++c) {
    if (needs_escape(c) && chars.contains(c)) kinds.push_back(rules_.literal(escape_of(c)));
  }
  return rules_.choice(std::move(kinds));
}

}  // namespace forerun::grammar
