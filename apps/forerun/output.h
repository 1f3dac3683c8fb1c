// The output of a command for other programs: standard output, JSON, files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "forerun/status.h"

namespace forerun::app {

// Flushes standard output. Fails if not all output could be written (a full disk, a closed pipe).
Status flush_stdout();

// Returns the JSON text, indented, with a line break at the end. Bytes that are not UTF-8 (in a
// file's name, or a byte-level model's text) become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);
// Returns the same on one line.
std::string json_line(const nlohmann::ordered_json& json);

// Writes `text` to a file, or to standard output if `path` is "-". Messages begin with `flag`.
Status write_output(const std::string& flag, const std::string& path, const std::string& text);

}  // namespace forerun::app
