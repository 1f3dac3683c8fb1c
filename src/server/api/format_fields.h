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

// A format, and the client's path for what the engine calls "output_format".
struct FormatField {
  OutputFormat& format;
  ParamNames& names;
};

// The field `name` of `fields`, {"type": "text" | "json_object" | "json_schema", ...}; the schema
// beside the type or in an object "json_schema". `path`: the field's in the call. Errors are left
// in `fields`.
void read_response_format(OrderedFieldReader& fields, const char* name, const std::string& path,
                          FormatField format);

// `text` as a literal of a grammar text.
std::string grammar_literal(std::string_view text);

// Reads the fields of llama-server and vLLM. At most one of all these fields may be given.
void read_guides(OrderedFieldReader& fields, FormatField format);

}  // namespace forerun::server
