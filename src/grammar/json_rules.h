// The rules of JSON values, of which every schema is composed.
//
// One form of every value is accepted, so that a model cannot fill its reply with blanks: after
// "{", "[" and "," nothing, one space, or a line break with up to 32 spaces or 8 tabs of
// indentation, by the letter (schema_reading.h) twice as many; the same before "}" and "]" of what
// is not empty; after ":" nothing or one space; nothing elsewhere. Numbers have up to 18 digits
// before the point, 18 after it and 2 in the exponent, which keeps them finite as doubles. Where a
// text is fixed (names, enum, const) or described by a pattern, it has one spelling: characters as
// they are, and only what JSON demands escaped, \b \f \n \r \t \" \\ in two characters and other
// controls as \u00xx in lower case. Other strings may use every escape of JSON that gives a
// character.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "grammar/rule_set.h"
#include "grammar/schema_reading.h"

namespace forerun::grammar {

// Makes each rule when it is first asked for; all are shared. `rules` must outlive it.
class JsonRules {
 public:
  explicit JsonRules(RuleSet& rules, SchemaReading reading = SchemaReading::kIntent)
      : rules_(rules), indents_deeply_(reading == SchemaReading::kLetter) {}

  ExprId value();
  ExprId object();
  ExprId array();
  ExprId string();
  // min to max characters; max may be kUnbounded.
  ExprId string_of_length(uint32_t min, uint32_t max);
  ExprId number();
  // Numbers that are no integers, without exponent.
  ExprId fraction();

  // White space between an opening bracket or comma and what follows, or before a closing bracket.
  ExprId gap();
  // White space after a colon.
  ExprId space();
  // A member of an object: `name` in quotes, the colon, `value`.
  ExprId member(std::string_view name, ExprId value);

  // One character of `chars` within quotes, in its one spelling.
  ExprId string_chars(const CodePointSet& chars);
  // Like string_chars(), for use from many states: if `chars` has every character that is escaped,
  // all states call one rule for what follows a backslash.
  ExprId string_chars_by_call(const CodePointSet& chars);
  // The characters that string_chars() escapes, and what follows the backslash of each.
  static const CodePointSet& escaped_chars();
  ExprId escape_tails();

 private:
  ExprId any_string_char();
  ExprId members(ExprId member);
  // `rule` as an expression, made by `make` the first time.
  template <class Make>
  ExprId once(std::optional<RuleId>& rule, const char* name, Make make);

  RuleSet& rules_;
  const bool indents_deeply_;
  std::optional<RuleId> value_, object_, array_, string_, number_, fraction_, line_, tails_;
  std::map<std::pair<uint32_t, uint32_t>, RuleId> lengths_;
};

// `text` with quotes, in its one spelling. `text` must be UTF-8.
std::string json_quoted(std::string_view text);

}  // namespace forerun::grammar
