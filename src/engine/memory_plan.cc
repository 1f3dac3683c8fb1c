#include "engine/memory_plan.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "step/step.h"

namespace forerun {
namespace {

// Tree rows beside a sequence's own tokens.
constexpr int32_t kTreeReserveTokens = 256;

// Of a token, both models' parts together; 0 of a memory whose parts have no heads.
int64_t token_bytes(const DeviceMemory& memory) { return memory.need().kv_token_bytes(); }

// "1024 bytes a token: 512 + 512 on its devices"
std::string describe_token(const DeviceMemory& memory) {
  std::string text = std::to_string(token_bytes(memory)) + " bytes a token";
  if (memory.needs.size() < 2) return text;
  for (size_t part = 0; part < memory.needs.size(); ++part) {
    text += (part == 0 ? ": " : " + ") + std::to_string(memory.needs[part].kv_token_bytes());
  }
  return text + " on its devices";
}

// What KV may take where the user names no limit. The rest of a host's memory is for others; a GPU
// is ours, but allocations are rounded up.
int64_t default_kv_bytes(const DeviceMemory& memory) {
  const int64_t room = memory.room_bytes();
  return memory.is_host ? std::min(memory.available_bytes / 2, room) : room / 10 * 9;
}

int64_t blocks_for(int64_t tokens) { return (tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

}  // namespace

Result<MemoryPlan> plan_memory(const EngineOptions& options, int32_t longest_context,
                               bool has_draft, std::vector<DeviceMemory> memories) {
  if (options.max_context_tokens < 0 || options.max_context_tokens > longest_context) {
    return Status(StatusCode::kInvalidArgument,
                  "context: found " + std::to_string(options.max_context_tokens) +
                      " tokens, accepted are 1 to " + std::to_string(longest_context) +
                      ", what the checkpoint was made for");
  }
  int64_t room = 0;
  int64_t all_token_bytes = 0;
  std::string names;
  for (const DeviceMemory& memory : memories) {
    names += (names.empty() ? "" : ", ") + memory.name;
    room += std::max<int64_t>(memory.room_bytes(), 0);
    all_token_bytes += token_bytes(memory);
  }
  if (options.kv_memory_bytes < 0 || options.kv_memory_bytes > room) {
    return Status(StatusCode::kResourceExhausted,
                  "KV memory: asked for " + describe_bytes(options.kv_memory_bytes) +
                      ", available are " + describe_bytes(room) + " (" + names + ")");
  }
  // The memory with room for the fewest blocks decides.
  int64_t limit_blocks = std::numeric_limits<int64_t>::max();
  const DeviceMemory* tightest = nullptr;
  int64_t limit = 0;
  for (const DeviceMemory& memory : memories) {
    if (token_bytes(memory) == 0) continue;  // its devices have no heads
    int64_t bytes = default_kv_bytes(memory);
    if (options.kv_memory_bytes > 0) {
      const double share =
          static_cast<double>(token_bytes(memory)) / static_cast<double>(all_token_bytes);
      bytes = memories.size() == 1
                  ? options.kv_memory_bytes
                  : std::min(
                        memory.room_bytes(),
                        static_cast<int64_t>(share * static_cast<double>(options.kv_memory_bytes)));
    }
    bytes = std::max<int64_t>(bytes, 0);
    const int64_t blocks = bytes / (token_bytes(memory) * kKvBlockTokens);
    if (blocks >= limit_blocks) continue;
    limit_blocks = blocks;
    tightest = &memory;
    limit = bytes;
  }
  const int32_t context =
      options.max_context_tokens > 0 ? options.max_context_tokens : longest_context;
  const int64_t needed_blocks = blocks_for(int64_t{context} + kTreeReserveTokens);

  MemoryPlan plan;
  plan.max_context_tokens = context;
  if (needed_blocks > limit_blocks) {
    const int64_t fits = limit_blocks * kKvBlockTokens - kTreeReserveTokens;
    if (options.max_context_tokens > 0 || fits < kKvBlockTokens) {
      return Status(
          StatusCode::kResourceExhausted,
          "KV cache: " + std::to_string(context) + " tokens of context need " +
              describe_bytes(needed_blocks * kKvBlockTokens * token_bytes(*tightest)) + " of " +
              tightest->name + " (" + describe_token(*tightest) + "), the limit is " +
              describe_bytes(limit) +
              (fits < kKvBlockTokens ? ", not enough for any context"
                                     : "; a context of " + std::to_string(fits) + " tokens fits"));
    }
    plan.max_context_tokens = static_cast<int32_t>(fits);
  }
  // On a CPU pages are committed when a token is written, so room for many requests costs nothing
  // until they come.
  const int64_t wanted = needed_blocks * std::max(1, options.max_active_requests);
  plan.target_blocks = std::min(wanted, limit_blocks);
  plan.draft_blocks = has_draft ? plan.target_blocks : 0;
  plan.memories = std::move(memories);
  return plan;
}

int64_t MemoryPlan::weight_bytes() const {
  int64_t bytes = 0;
  for (const DeviceMemory& memory : memories) bytes += memory.need().weight_bytes;
  return bytes;
}

// Both models have as many blocks.
int64_t MemoryPlan::kv_bytes() const {
  int64_t bytes = 0;
  for (const DeviceMemory& memory : memories) bytes += target_blocks * memory.need().kv_block_bytes;
  return bytes;
}

}  // namespace forerun
