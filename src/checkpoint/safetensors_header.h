// The header of a safetensors file: an 8-byte little-endian length, that many bytes of JSON, then
// the tensors' bytes without a gap. The parser refuses whatever the format's reference reader
// refuses.
//
// The function is pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "forerun/status.h"

namespace forerun {

struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;      // the file's spelling, e.g. "BF16"
  std::optional<DType> dtype;  // unset for formats without a DType, e.g. "F64"
  std::vector<int64_t> shape;  // extents >= 0; empty for a scalar
  uint64_t begin = 0;          // offsets within the file, in bytes
  uint64_t end = 0;
};

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Returns the entries in the order of their offsets. `prefix` holds at least the length and the
// header (with fewer bytes the file counts as truncated); `file_bytes` is the size of the whole
// file. Returns kCorrupt for a length beyond the file or the limit, bad JSON, repeated names,
// unknown keys, shapes that overflow or contradict the offsets, gaps, overlaps, and a file that is
// longer or shorter than its tensors. The message does not name the file.
Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::span<const std::byte> prefix,
                                                               uint64_t file_bytes);

}  // namespace forerun
