// What an answer must be like: OpenAI's "response_format" and "text.format", llama-server's
// "grammar" and "json_schema", and vLLM's "guided_json", "guided_choice", "guided_grammar",
// "guided_regex" and "structured_outputs".
#pragma once

#include <string>
#include <string_view>

#include "forerun/output_format.h"
#include "json/field_reader.h"

namespace forerun::server {

// The field `name` of `fields`, {"type": "text" | "json_object" | "json_schema", ...}; the schema
// beside the type or in an object "json_schema". Errors are left in `fields`.
void read_response_format(OrderedFieldReader& fields, const char* name, OutputFormat& format);

// `text` as a literal of a grammar text.
std::string grammar_literal(std::string_view text);

// The extensions. At most one of all may be given.
void read_guides(OrderedFieldReader& fields, OutputFormat& format);

}  // namespace forerun::server
