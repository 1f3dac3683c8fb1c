// The header of a GGUF file, version 2 or 3, little-endian: a fixed part (magic, version, the
// number of tensors and of metadata values), the metadata, the table of tensors. The tensors' bytes
// follow, each tensor at a multiple of the alignment.
//
// Thread rules: pure function.
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
  // Outermost extent first, which is the reverse of the file's order; extents >= 0, up to 4 of
  // them; empty is a scalar. A row, whose extent is the last one, is a whole number of blocks.
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // offsets within the file, in bytes
  uint64_t end = 0;    // `begin` where ggml_layout(ggml_type) is unset: the size is not known
};

struct GgufHeader {
  uint32_t version = 0;
  uint32_t alignment = 0;  // bytes; a power of two
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of their offsets
};

inline constexpr std::string_view kGgufMagic = "GGUF";  // the first bytes of a file
inline constexpr uint64_t kMaxGgufHeaderBytes = uint64_t{256} << 20;
// An array of numbers or strings has depth 1. Deeper ones are checked and kept as bytes.
inline constexpr int kMaxGgufArrayDepth = 4;

// `file` holds at least the header (the whole file will do; with fewer bytes the file counts as
// truncated) and must outlive the result, whose names, keys and strings are views of it;
// `file_bytes` is the size of the whole file. Reads nothing behind the header. Time and memory are
// bounded by the size of the header, whatever counts and lengths it states.
//
// Refused as kUnsupported: other versions, big-endian files. Refused as kCorrupt: another magic,
// counts and lengths beyond the end of the file or the limits above, values of unknown types, keys
// and tensors that appear twice, an alignment that is no power of two, shapes whose size overflows
// or whose rows are not whole blocks, tensors that are not aligned, beyond the end of the file or
// overlap. A tensor whose type Forerun does not know is kept, for the caller to refuse by name. The
// message does not name the file.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, uint64_t file_bytes);

}  // namespace forerun
