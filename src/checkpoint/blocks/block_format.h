// Formats that store weights in blocks of 32 or 256: a few quantized values with their scales, as
// GGUF files hold them. A row of a tensor is a whole number of blocks.
//
// All functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace forerun {

struct BlockFields;  // block_fields.h
struct BlockLayout;

enum class BlockFormat : uint8_t {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIq4Nl,
  kIq4Xs,
  kMxfp4,
};

struct BlockFormatInfo {
  BlockFormat format;
  std::string_view name;  // GGUF's spelling: "Q4_K"
  uint32_t ggml_type;     // type number in a GGUF file
  int64_t weights;        // weights per block
  int64_t bytes;          // bytes per block
  // Decodes `count` consecutive blocks to count * weights floats. Every float has the bits of
  // ggml's reference, except that any NaN stands for any other. Blocks need no alignment.
  void (*decode)(const std::byte* blocks, int64_t count, float* to);
  // The layout of the format's blocks, and a function that unpacks one block.
  const BlockLayout* layout;
  void (*unpack)(const std::byte* block, BlockFields& to);
};

// Returns all formats, in the order of BlockFormat.
std::span<const BlockFormatInfo> block_formats();
const BlockFormatInfo& block_format(BlockFormat format);
// Returns null if no format has this number.
const BlockFormatInfo* find_ggml_block_format(uint32_t ggml_type);

}  // namespace forerun
