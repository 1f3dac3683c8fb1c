// Reads a regular expression as an expression of rules. It must match the whole text.
#pragma once

#include <string_view>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/rule_set.h"

namespace forerun::grammar {

// Adds to `rules` a rule for the texts that `regex` (pattern.h) matches from the first character to
// the last. Fails as read_pattern() does, and with kInvalidArgument if it matches nothing.
Result<ExprId> read_regex(std::string_view regex, const GrammarLimits& limits, RuleSet& rules);

}  // namespace forerun::grammar
