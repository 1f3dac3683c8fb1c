// Split models: the names of their parts, and the metadata with a part's number.
//
// All functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/gguf/gguf_metadata.h"
#include "forerun/status.h"

namespace forerun {

// The name of a part: NAME-00002-of-00003.gguf is part 2 of 3.
struct GgufPartName {
  std::string name;  // NAME
  uint32_t part = 0;
  uint32_t num_parts = 0;
};

// Returns unset if `file_name` has another form; the numbers are as in the name.
std::optional<GgufPartName> parse_gguf_part_name(std::string_view file_name);
std::string gguf_part_name(const GgufPartName& name);

struct GgufSplit {
  int64_t part_idx = 0;     // split.no, from 0
  int64_t num_parts = 0;    // split.count, at least 1
  int64_t num_tensors = 0;  // split.tensors.count: the tensors of all parts
};

// Returns unset if none of the three keys exists. Fails (kCorrupt) if only some exist, or if one
// has a value out of range. `source` is the name of the file in messages.
Result<std::optional<GgufSplit>> read_gguf_split(const GgufMetadata& metadata,
                                                 const std::string& source);

}  // namespace forerun
