#include "convert/output_format.h"

#include <algorithm>
#include <utility>

#include "base/lower_case.h"
#include "base/printable.h"
#include "checkpoint/blocks/encode_blocks.h"

namespace forerun {
namespace {

constexpr DType kFloats[] = {DType::kF32, DType::kBf16, DType::kF16};
constexpr std::pair<std::string_view, int32_t> kAwqGroups[] = {
    {"32", 32}, {"64", 64}, {"128", 128}};
constexpr std::string_view kAwqName = "awq";

}  // namespace

std::vector<FileFormat> output_formats() {
  std::vector<FileFormat> formats;
  for (const DType dtype : kFloats) formats.push_back({.dtype = dtype});
  for (const BlockFormatInfo& blocks : block_formats()) {
    if (block_encoder(blocks.format) == nullptr) continue;
    formats.push_back({.kind = FileFormat::Kind::kBlocks, .blocks = &blocks});
  }
  formats.push_back({.kind = FileFormat::Kind::kAwq});
  return formats;
}

std::vector<std::string> output_format_names() {
  std::vector<std::string> names;
  for (const FileFormat& format : output_formats()) names.push_back(output_format_name(format));
  return names;
}

int32_t largest_awq_group(int64_t inputs) {
  int32_t largest = 0;
  for (const auto& [name, group_size] : kAwqGroups) {
    if (inputs % group_size == 0) largest = std::max(largest, group_size);
  }
  return largest;
}

std::string output_format_name(const FileFormat& format) {
  switch (format.kind) {
    case FileFormat::Kind::kFloat:
      return std::string(dtype_name(format.dtype));
    case FileFormat::Kind::kBlocks:
      return lower_case(std::string(format.blocks->name));
    case FileFormat::Kind::kAwq:
      break;
  }
  return std::string(kAwqName);
}

Result<FileFormat> parse_output_format(std::string_view flag, std::string_view text) {
  const std::string wanted = lower_case(std::string(text));
  for (const FileFormat& format : output_formats()) {
    if (output_format_name(format) == wanted) return format;
  }
  for (const auto& [name, group_size] : kAwqGroups) {
    if (wanted != std::string(kAwqName) + ":" + std::string(name)) continue;
    return FileFormat{.kind = FileFormat::Kind::kAwq, .group_size = group_size};
  }
  std::string accepted;
  for (const std::string& name : output_format_names()) accepted += name + ", ";
  return Status(StatusCode::kInvalidArgument, std::string(flag) + ": found " + in_quotes(text) +
                                                  "; accepted: " + accepted +
                                                  "awq:128, awq:64 or awq:32");
}

}  // namespace forerun
