// Split models: the names of their parts, and the metadata that say which part a file is.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/gguf/gguf_metadata.h"
#include "forerun/status.h"

namespace forerun {

// NAME-00002-of-00003.gguf is part 2 of 3.
struct GgufPartName {
  std::string name;  // NAME
  uint32_t part = 0;
  uint32_t num_parts = 0;
};

// Unset where `file_name` has another form; the numbers are as the name states them.
std::optional<GgufPartName> parse_gguf_part_name(std::string_view file_name);
std::string gguf_part_name(const GgufPartName& name);

struct GgufSplit {
  int64_t part_idx = 0;     // split.no, from 0
  int64_t num_parts = 0;    // split.count, at least 1
  int64_t num_tensors = 0;  // split.tensors.count: the tensors of all parts
};

// Unset where there is none of the three keys. Fails (kCorrupt) where only some are there, or one
// has a value out of range. `source` is what messages call the file.
Result<std::optional<GgufSplit>> read_gguf_split(const GgufMetadata& metadata,
                                                 const std::string& source);

}  // namespace forerun
