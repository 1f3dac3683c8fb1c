// The rules of JSON values, from which every schema is composed.
//
// Every value has one accepted form, so that a model cannot fill its reply with white space. After
// "{", "[" and ",": nothing, one space, or a line break with up to 32 spaces or 8 tabs of
// indentation, with kLetter (schema_reading.h) twice as many; the same before "}" and "]" of
// non-empty values; after ":": nothing or one space; nothing elsewhere. Numbers have up to 18
// digits before the point, 18 after it and 2 in the exponent, which keeps them finite as doubles. A
// text that is fixed (names, enum, const) or described by a pattern has one spelling: only the
// characters that JSON requires are escaped, \b \f \n \r \t \" \\ in two characters and other
// controls as \u00xx in lower case. Other strings may use every JSON escape of a character.
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

// Makes each rule when it is first asked for; callers share it. `rules` must outlive the object.
class JsonRules {
 public:
  explicit JsonRules(RuleSet& rules, SchemaReading reading = SchemaReading::kIntent)
      : rules_(rules), indents_deeply_(reading == SchemaReading::kLetter) {}

  ExprId value();
  ExprId object();
  ExprId array();
  ExprId string();
  // Accepts min to max characters; max may be kUnbounded.
  ExprId string_of_length(uint32_t min, uint32_t max);
  ExprId number();
  // Accepts numbers that are not integers, without exponent.
  ExprId fraction();

  // Accepts white space between an opening bracket or comma and the next character, or before a
  // closing bracket.
  ExprId gap();
  // Accepts white space after a colon.
  ExprId space();
  // Accepts a member of an object: `name` in quotes, the colon, `value`.
  ExprId member(std::string_view name, ExprId value);

  // Accepts one character of `chars` within quotes, in its single spelling.
  ExprId string_chars(const CodePointSet& chars);
  // Does what string_chars() does, for use from many states: if `chars` has every character that is
  // escaped, all states call one rule for the characters after a backslash.
  ExprId string_chars_by_call(const CodePointSet& chars);
  // Return the characters that string_chars() escapes, and the rest of each escape after the
  // backslash.
  static const CodePointSet& escaped_chars();
  ExprId escape_tails();

 private:
  ExprId any_string_char();
  ExprId members(ExprId member);
  // Returns `rule` as an expression; `make` makes the rule the first time.
  template <class Make>
  ExprId once(std::optional<RuleId>& rule, const char* name, Make make);

  RuleSet& rules_;
  const bool indents_deeply_;
  std::optional<RuleId> value_, object_, array_, string_, number_, fraction_, line_, tails_;
  std::map<std::pair<uint32_t, uint32_t>, RuleId> lengths_;
};

// Returns `text` with quotes, in its single spelling. `text` must be UTF-8.
std::string json_quoted(std::string_view text);

}  // namespace forerun::grammar
