// JSON Schema's `pattern`: the regular subset of ECMAScript's regular expressions.
//
// Accepted: characters, "." (any but line ends), classes with ranges and negation, \d \w \s and
// their opposites (as in ECMAScript without flags: ASCII except for \s), \t \n \r \f \v \0 \xHH
// \uHHHH \u{H...} and escaped punctuation, groups ((...), (?:...), (?<name>...)), alternatives, the
// quantifiers * + ? {m} {m,} {m,n} and their lazy forms (which match the same texts), and ^ and $
// anywhere. As in ECMAScript without flags, a "{" that does not begin a quantifier is a literal,
// and so is a "-" beside a class within a class. A pattern matches anywhere in a text unless it is
// anchored. Refused by name: look-ahead and look-behind, back-references, \b and \B, \p and \P,
// flags. Matching takes time linear in the text for any pattern; a pattern that would need too many
// states is refused when it is compiled.
#pragma once

#include <string_view>

#include "forerun/status.h"
#include "grammar/char_nfa.h"
#include "grammar/limits.h"

namespace forerun::grammar {

// Returns the automaton of whole texts in which `pattern` (UTF-8) is found: no further wrapping is
// needed.
//
// Fails with kInvalidArgument (message with the offset in bytes), kUnsupported or
// kResourceExhausted.
Result<CharNfa> read_pattern(std::string_view pattern, const GrammarLimits& limits);

}  // namespace forerun::grammar
