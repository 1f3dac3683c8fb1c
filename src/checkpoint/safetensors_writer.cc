#include "checkpoint/safetensors_writer.h"

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace forerun {
namespace {

using nlohmann::ordered_json;

const char* safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBf16:
      return "BF16";
    default:
      return "I32";
  }
}

uint64_t tensor_bytes(const SafetensorsTensor& tensor) {
  uint64_t bytes = dtype_bytes(tensor.dtype);
  for (const int64_t extent : tensor.shape) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

std::string shard_name(size_t shard_idx, size_t num_shards) {
  if (num_shards == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard_idx + 1, num_shards);
  return name;
}

// Returns the length of the JSON, then the JSON, padded with spaces so that the tensors are
// aligned.
std::string header_of(const ordered_json& entries) {
  std::string text = entries.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + text;
}

}  // namespace

SafetensorsLayout lay_out_safetensors(std::span<const SafetensorsTensor> tensors,
                                      uint64_t max_file_bytes) {
  SafetensorsLayout layout;
  std::vector<ordered_json> entries;
  std::vector<uint64_t> data_bytes;
  uint64_t total = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const uint64_t bytes = tensor_bytes(tensor);
    if (entries.empty() || (data_bytes.back() > 0 && data_bytes.back() + bytes > max_file_bytes)) {
      entries.push_back({{"__metadata__", {{"format", "pt"}}}});
      data_bytes.push_back(0);
    }
    const uint64_t begin = data_bytes.back();
    data_bytes.back() += bytes;
    total += bytes;
    entries.back()[tensor.name] = {{"dtype", safetensors_name(tensor.dtype)},
                                   {"shape", tensor.shape},
                                   {"data_offsets", {begin, begin + bytes}}};
    layout.file_of.push_back(entries.size() - 1);
    layout.offset_of.push_back(begin);
  }
  for (size_t shard_idx = 0; shard_idx < entries.size(); ++shard_idx) {
    std::string header = header_of(entries[shard_idx]);
    const uint64_t bytes = header.size() + data_bytes[shard_idx];
    layout.files.push_back({shard_name(shard_idx, entries.size()), std::move(header), bytes});
  }
  ordered_json map = ordered_json::object();
  for (size_t idx = 0; idx < tensors.size(); ++idx) {
    const SafetensorsFile& file = layout.files[layout.file_of[idx]];
    layout.offset_of[idx] += file.header.size();
    if (entries.size() > 1) map[tensors[idx].name] = file.name;
  }
  if (entries.size() > 1) {
    const ordered_json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    layout.index = index.dump(2) + "\n";
  }
  return layout;
}

}  // namespace forerun
