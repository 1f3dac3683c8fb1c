// JSON text to template values and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "forerun/status.h"
#include "text/jinja/value.h"

namespace forerun::text::jinja {

// `what` names the text in messages. Order of keys is kept; of a repeated key the last value holds.
Result<Value> parse_json(std::string_view json, const std::string& what);

struct JsonStyle {
  std::optional<int64_t> indent;      // spaces a level; none: one line
  std::string item_separator = ", ";  // Python's defaults; "," with an indent
  std::string key_separator = ": ";
  bool ascii_only = false;
  bool sort_keys = false;
};

// As Python's json.dumps writes it; kInvalidArgument for what has no JSON form.
Result<std::string> to_json(const Value& value, const JsonStyle& style);

}  // namespace forerun::text::jinja
