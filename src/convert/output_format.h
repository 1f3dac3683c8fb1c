// The formats in which `forerun convert` writes weights: floats, every block format that has an
// encoder, and AWQ.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/blocks/block_format.h"
#include "forerun/status.h"

namespace forerun {

struct FileFormat {
  enum class Kind : uint8_t { kFloat, kBlocks, kAwq };
  Kind kind = Kind::kFloat;
  DType dtype = DType::kBf16;               // type of kFloat
  const BlockFormatInfo* blocks = nullptr;  // format of kBlocks
  // How many inputs share a scale in AWQ; 0: as many as in the input if it is AWQ, else 128.
  int32_t group_size = 0;

  bool is_float() const { return kind == Kind::kFloat; }
  bool operator==(const FileFormat&) const = default;
};

// Floats, every block format with an encoder, and AWQ, without a group size.
std::vector<FileFormat> output_formats();

// "f32", "bf16", "f16", the block formats such as "q8_0", "awq": what parse_output_format() takes.
std::vector<std::string> output_format_names();

// "q8_0", "awq" or "awq:GROUP". Messages begin with `flag`.
Result<FileFormat> parse_output_format(std::string_view flag, std::string_view text);

// The largest group of AWQ of which the inputs of a layer are a multiple; 0 where there is none.
int32_t largest_awq_group(int64_t inputs);

// "bf16", "q8_0" or "awq".
std::string output_format_name(const FileFormat& format);

}  // namespace forerun
