#include "model/device_memory.h"

#include <algorithm>

namespace forerun {
namespace {

// Returns a text such as "weights 6 MB, buffers 3 MB, KV cache of 640 tokens 1 MB".
std::string describe(const MemoryNeed& need, int64_t kv_blocks) {
  std::string text = "weights " + describe_bytes(need.weight_bytes);
  if (need.buffer_bytes > 0) text += ", buffers " + describe_bytes(need.buffer_bytes);
  if (kv_blocks > 0 && need.kv_block_bytes > 0) {
    text += ", KV cache of " + std::to_string(kv_blocks * kKvBlockTokens) + " tokens " +
            describe_bytes(kv_blocks * need.kv_block_bytes);
  }
  return text;
}

std::string describe(const DeviceMemory& memory, int64_t kv_blocks) {
  const MemoryNeed all = memory.need();
  std::string text = memory.name + ": " + describe(all, kv_blocks);
  for (size_t part = 0; memory.needs.size() > 1 && part < memory.needs.size(); ++part) {
    text += (part == 0 ? " (" : "; ") + memory.needs[part].name + ": " +
            describe(memory.needs[part], kv_blocks);
    if (part + 1 == memory.needs.size()) text += ")";
  }
  text += ", " + describe_bytes(std::max<int64_t>(memory.available_bytes, 0)) + " free";
  if (!memory.source.empty()) text += " (" + memory.source + ")";
  if (kv_blocks > 0 && all.kv_block_bytes > 0) {
    const int64_t blocks = std::max<int64_t>(memory.room_bytes(), 0) / all.kv_block_bytes;
    text += ", room for " + std::to_string(blocks * kKvBlockTokens) + " tokens";
  }
  return text;
}

bool fits(const DeviceMemory& memory, int64_t kv_blocks) {
  const int64_t room = memory.room_bytes();
  const int64_t block_bytes = memory.need().kv_block_bytes;
  return room >= 0 && (block_bytes == 0 || kv_blocks <= room / block_bytes);
}

}  // namespace

namespace {

void add(const MemoryNeed& part, MemoryNeed& sum) {
  sum.weight_bytes += part.weight_bytes;
  sum.staged_bytes += part.staged_bytes;
  sum.buffer_bytes += part.buffer_bytes;
  sum.kv_block_bytes += part.kv_block_bytes;
}

}  // namespace

MemoryNeed DeviceMemory::need() const {
  MemoryNeed sum;
  for (const MemoryNeed& part : needs) add(part, sum);
  return sum;
}

MemoryNeed DeviceMemory::need(Role role) const {
  MemoryNeed sum;
  for (const MemoryNeed& part : needs) {
    if (part.role == role) add(part, sum);
  }
  return sum;
}

int64_t DeviceMemory::room_bytes() const {
  const MemoryNeed all = need();
  return available_bytes - all.weight_bytes - all.buffer_bytes;
}

Status check_memory(std::span<const DeviceMemory> memories, int64_t kv_blocks) {
  const bool all_fit =
      std::all_of(memories.begin(), memories.end(),
                  [kv_blocks](const DeviceMemory& memory) { return fits(memory, kv_blocks); });
  if (all_fit) return {};
  std::string message;
  for (const DeviceMemory& memory : memories) {
    message += (message.empty() ? "" : "; ") + describe(memory, kv_blocks);
  }
  return {StatusCode::kResourceExhausted, message};
}

std::string describe_bytes(int64_t bytes) {
  struct Unit {
    int64_t bytes;
    const char* name;
  };
  // A number keeps at least three digits: 1,500 MB, not 1 GB.
  constexpr Unit kUnits[] = {{1'000'000'000'000, " TB"}, {1'000'000, " MB"}, {1'000, " KB"}};
  for (const Unit& unit : kUnits) {
    if (bytes >= unit.bytes) {
      return std::to_string((bytes + unit.bytes / 2) / unit.bytes) + unit.name;
    }
  }
  return std::to_string(bytes) + " bytes";
}

}  // namespace forerun
