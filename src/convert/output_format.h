// The formats in which `forerun convert` writes weights: floats, every block format that has an
// encoder, and AWQ.
//
// All functions are pure.
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
  DType dtype = DType::kBf16;               // type for kFloat
  const BlockFormatInfo* blocks = nullptr;  // format for kBlocks
  // Number of inputs that share a scale in AWQ; 0 keeps the group size of an AWQ input, else means
  // 128.
  int32_t group_size = 0;

  bool is_float() const { return kind == Kind::kFloat; }
  bool operator==(const FileFormat&) const = default;
};

// Returns floats, every block format with an encoder, and AWQ, without a group size.
std::vector<FileFormat> output_formats();

// Returns the names that parse_output_format() takes: "f32", "bf16", "f16", block formats such as
// "q8_0", and "awq".
std::vector<std::string> output_format_names();

// Parses a format such as "q8_0", "awq" or "awq:GROUP". Messages begin with `flag`.
Result<FileFormat> parse_output_format(std::string_view flag, std::string_view text);

// Returns the largest AWQ group size that divides `inputs`, or 0 if there is none.
int32_t largest_awq_group(int64_t inputs);

// Returns a name such as "bf16", "q8_0" or "awq".
std::string output_format_name(const FileFormat& format);

}  // namespace forerun
