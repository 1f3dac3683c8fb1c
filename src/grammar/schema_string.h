// Schemas of strings: patterns, formats and lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "forerun/status.h"
#include "grammar/char_nfa.h"
#include "grammar/schema_context.h"

namespace forerun::grammar {

// Returns the strings that `schema` allows.
Result<ExprId> read_string(SchemaContext& context, const Json& schema, const std::string& at);

// Returns the texts that pattern, format and similar keywords allow, without quotes; nothing if
// they allow all.
Result<std::optional<CharNfa>> read_texts(SchemaContext& context, const Json& schema,
                                          const std::string& at);

// Returns a JSON string in quotes: the texts of `nfa` with min to max characters.
Result<ExprId> quoted_texts(SchemaContext& context, CharNfa nfa, uint32_t min, uint32_t max,
                            const std::string& at);

}  // namespace forerun::grammar
