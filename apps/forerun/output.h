// What a command hands to other programs: standard output, JSON, files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "forerun/status.h"

namespace forerun::app {

// Whether all that was printed on standard output has arrived (a disk is full, a pipe was closed).
Status flush_stdout();

// Indented, with a line break. Bytes that are no UTF-8 (a file's name, a byte-level model's text)
// become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);
// The same on one line.
std::string json_line(const nlohmann::ordered_json& json);

// Writes `text` to a file, or to standard output where `path` is "-". Messages begin with `flag`.
Status write_output(const std::string& flag, const std::string& path, const std::string& text);

}  // namespace forerun::app
