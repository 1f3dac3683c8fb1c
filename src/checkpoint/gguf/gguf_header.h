// The header of a GGUF file, version 2 or 3, little-endian: a fixed part (magic, version, the
// number of tensors and of metadata values), the metadata, the table of tensors. The tensors' bytes
// follow, each tensor at a multiple of the alignment.
//
// The function is pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/gguf_metadata.h"
#include "forerun/status.h"

namespace forerun {

struct GgufTensor {
  std::string_view name;
  uint32_t ggml_type = 0;  // see ggml_types.h
  // Outermost extent first, the reverse of the file's order; up to 4 extents >= 0; empty for a
  // scalar. A row, along the last extent, is a whole number of blocks.
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // offsets within the file, in bytes
  // Equals `begin` if ggml_layout(ggml_type) is unset, since the size is not known.
  uint64_t end = 0;
};

struct GgufHeader {
  uint32_t version = 0;
  uint32_t alignment = 0;  // bytes; a power of two
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of their offsets
};

inline constexpr std::string_view kGgufMagic = "GGUF";  // first bytes of a file
inline constexpr uint64_t kMaxGgufHeaderBytes = uint64_t{256} << 20;
// An array of numbers or strings has depth 1. Deeper arrays are checked and kept as bytes.
inline constexpr int kMaxGgufArrayDepth = 4;

// Parses a header. `file` holds at least the header (with fewer bytes the file counts as truncated)
// and must outlive the result, which has views of names, keys and strings; `file_bytes` is the size
// of the whole file. Reads nothing behind the header. The size of the header bounds time and
// memory, whatever counts and lengths it states.
//
// Returns kUnsupported for other versions and big-endian files. Returns kCorrupt for another magic,
// counts and lengths beyond the end of the file or the limits above, values of unknown types,
// duplicate keys or tensors, an alignment that is no power of two, shapes with an overflowing size
// or without whole blocks per row, and tensors that are not aligned, overlap or lie beyond the end
// of the file. Keeps a tensor of an unknown type, which the caller may refuse by name. The message
// does not name the file.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, uint64_t file_bytes);

}  // namespace forerun
