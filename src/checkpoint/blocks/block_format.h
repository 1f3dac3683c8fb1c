// Formats that store weights in blocks of 32 or 256: a few quantized values with their scales, as
// GGUF files hold them. A row of a tensor is a whole number of blocks.
//
// Thread rules: pure functions.
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
  std::string_view name;  // as GGUF's tools spell it: "Q4_K"
  uint32_t ggml_type;     // the number of the type in a GGUF file
  int64_t weights;        // weights of one block
  int64_t bytes;          // bytes of one block
  // Decodes `count` consecutive blocks to count * weights floats. Every float has the bits that
  // ggml's reference gives it, NaN excepted: any NaN stands for any other. Blocks need no
  // alignment.
  void (*decode)(const std::byte* blocks, int64_t count, float* to);
  // What all blocks of the format have in common, and the parts of one block.
  const BlockLayout* layout;
  void (*unpack)(const std::byte* block, BlockFields& to);
};

// All formats, in the order of BlockFormat.
std::span<const BlockFormatInfo> block_formats();
const BlockFormatInfo& block_format(BlockFormat format);
// Null where no format has this number.
const BlockFormatInfo* find_ggml_block_format(uint32_t ggml_type);

}  // namespace forerun
