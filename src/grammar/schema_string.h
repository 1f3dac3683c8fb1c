// Schemas of strings: patterns, formats and lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "forerun/status.h"
#include "grammar/char_nfa.h"
#include "grammar/schema_context.h"

namespace forerun::grammar {

// The strings that `schema` allows.
Result<ExprId> read_string(SchemaContext& context, const Json& schema, const std::string& at);

// The texts that pattern, format and their kin allow, without quotes; nothing where they allow
// all.
Result<std::optional<CharNfa>> read_texts(SchemaContext& context, const Json& schema,
                                          const std::string& at);

// A JSON string in quotes: the texts of `nfa` that have min to max characters.
Result<ExprId> quoted_texts(SchemaContext& context, CharNfa nfa, uint32_t min, uint32_t max,
                            const std::string& at);

}  // namespace forerun::grammar
