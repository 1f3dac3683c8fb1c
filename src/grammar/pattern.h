// JSON Schema's `pattern`: regular expressions of ECMAScript, those that are regular.
//
// Accepted: characters, "." (any but line ends), classes with ranges and negation, \d \w \s and
// their opposites (as ECMAScript has them without flags: ASCII but for \s), \t \n \r \f \v \0 \xHH
// \uHHHH \u{H...} and escaped punctuation, groups ((...), (?:...), (?<name>...)), alternatives, the
// quantifiers * + ? {m} {m,} {m,n} and their lazy forms (which match the same texts), and ^ and $
// anywhere. As ECMAScript has it without flags, "{" that begins no quantifier is itself, and so is
// "-" beside a class within a class. A pattern matches anywhere in a text unless it is anchored.
// Refused by name: look-ahead and look-behind, back-references, \b and \B, \p and \P, flags. The
// work is linear in the text whatever the pattern; what would need too many states is refused when
// it is compiled.
#pragma once

#include <string_view>

#include "forerun/status.h"
#include "grammar/char_nfa.h"
#include "grammar/limits.h"

namespace forerun::grammar {

// The texts in which `pattern` (UTF-8) is found, as a whole: no further wrapping is needed.
//
// Fails with kInvalidArgument (message with the offset in bytes), kUnsupported or
// kResourceExhausted.
Result<CharNfa> read_pattern(std::string_view pattern, const GrammarLimits& limits);

}  // namespace forerun::grammar
