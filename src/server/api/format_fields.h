// The fields for the format of an answer: OpenAI's "response_format" and "text.format",
// llama-server's "grammar" and "json_schema", and vLLM's "guided_json", "guided_choice",
// "guided_grammar", "guided_regex" and "structured_outputs".
#pragma once

#include <string>
#include <string_view>

#include "forerun/output_format.h"
#include "json/field_reader.h"
#include "server/api/api_error.h"

namespace forerun::server {

// A format, and the client's path for the engine's field "output_format".
struct FormatField {
  OutputFormat& format;
  ParamNames& names;
};

// Reads the field `name` of `fields`, {"type": "text" | "json_object" | "json_schema", ...}, with
// the schema beside the type or in an object "json_schema". `path` is the field's path in the call.
// Records errors in `fields`.
void read_response_format(OrderedFieldReader& fields, const char* name, const std::string& path,
                          FormatField format);

// Returns `text` as a literal of a grammar.
std::string grammar_literal(std::string_view text);

// Reads the fields of llama-server and vLLM. At most one of all these fields may be given.
void read_guides(OrderedFieldReader& fields, FormatField format);

}  // namespace forerun::server
