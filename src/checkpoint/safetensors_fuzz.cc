// Feeds bytes to the safetensors header parser. An accepted header must keep its promises: offsets
// lie inside the file, in order, with the size of their shape and dtype.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "checkpoint/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto entries = forerun::parse_safetensors_header(bytes, size);
  if (!entries.ok()) {
    if (entries.status().message().empty()) std::abort();
    return 0;
  }
  uint64_t position = entries->empty() ? size : entries->front().begin;
  for (const forerun::SafetensorsEntry& entry : *entries) {
    if (entry.begin != position || entry.end < entry.begin || entry.end > size) std::abort();
    position = entry.end;
    if (!entry.dtype) continue;
    uint64_t count = 1;
    for (const int64_t extent : entry.shape) count *= static_cast<uint64_t>(extent);
    if (count * forerun::dtype_bytes(*entry.dtype) != entry.end - entry.begin) std::abort();
  }
  if (position != size) std::abort();
  return 0;
}
