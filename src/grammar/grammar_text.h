// Reads a grammar text in GBNF, llama.cpp's format.
//
//   root   ::= "[" item ("," item)* "]"   # a comment
//   item   ::= [a-z_]+ | number
//   number ::= "-"? [0-9]{1,9}
//
// Rule names consist of letters, digits and dashes. An alternative is a sequence of literals
// ("..."), classes ([...], [^...]; ranges of Unicode characters), "." (any character), rule names
// and groups in parentheses, each optionally followed by *, +, ?, {m}, {m,} or {m,n}. Escapes: \n
// \r \t \" \\ \[ \] \- \^ \/ and \xHH, \uHHHH, \UHHHHHHHH, each a code point. A rule ends with its
// line, except within parentheses, after "|" or "::=", and if the next line begins with "|".
// Refused by name: names of tokens (<...>), left recursion (compile_rules.h), and rules that are
// undefined or defined twice.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/rule_set.h"

namespace forerun::grammar {

// A rule that exists before the text is read.
struct NamedRule {
  std::string name;
  RuleId rule = 0;
};

// Adds the rules of `text` to `rules` and returns the one named "root". `text` must be UTF-8; it
// may refer to the rules `defined`, but must not define them again.
//
// Fails with kInvalidArgument (message with line and column), kUnsupported or, above a limit,
// kResourceExhausted.
Result<RuleId> read_grammar_text(std::string_view text, std::span<const NamedRule> defined,
                                 const GrammarLimits& limits, RuleSet& rules);

}  // namespace forerun::grammar
