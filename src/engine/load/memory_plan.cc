#include "engine/load/memory_plan.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "exec/step_scheduler.h"
#include "planner/measure_costs.h"
#include "step/step.h"

namespace forerun {
namespace {

// In a pipeline each stage may hold two items of 64 rows, and the rows of two more items are
// verified but not yet committed.
int32_t tree_tokens(int32_t target_stages) {
  constexpr int32_t kRows = 64;
  return target_stages > 1 ? std::max(kTreeReserveTokens, (2 * target_stages + 2) * kRows)
                           : kTreeReserveTokens;
}

// KV needs of the models with a KV cache as long as the text.
class KeepingAll {
 public:
  explicit KeepingAll(bool draft_too) : draft_too_(draft_too) {}

  bool has(Role role) const { return role == Role::kTarget || draft_too_; }
  // Returns the bytes of KV per token in `memory`, summed over all parts of both models; 0 if no
  // part there has KV heads.
  int64_t token_bytes(const DeviceMemory& memory) const {
    return (draft_too_ ? memory.need() : memory.need(Role::kTarget)).kv_token_bytes();
  }
  // Returns a text such as "1024 bytes a token: 512 + 512 on its devices".
  std::string describe_token(const DeviceMemory& memory) const {
    std::string parts;
    int32_t count = 0;
    for (const MemoryNeed& part : memory.needs) {
      if (!has(part.role)) continue;
      parts += (count++ == 0 ? ": " : " + ") + std::to_string(part.kv_token_bytes());
    }
    return std::to_string(token_bytes(memory)) + " bytes a token" +
           (count < 2 ? "" : parts + " on its devices");
  }

 private:
  bool draft_too_;
};

// Returns the bytes of KV if the user sets no limit. Other processes need the rest of a host's
// memory; a GPU is used by this process alone, but allocations are rounded up.
int64_t default_kv_bytes(const DeviceMemory& memory) {
  const int64_t room = memory.room_bytes();
  return memory.is_host ? std::min(memory.available_bytes / 2, room) : room / 10 * 9;
}

int64_t blocks_for(int64_t tokens) { return (tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

// Returns the KV blocks of a draft model that keeps a window of each request: for each request the
// window, the block in which it ends and room for a tree, then the rows of a Step that reads
// prompts; at least as many as measuring Steps takes, which uses no window.
int64_t blocks_of_windows(int32_t window_tokens, int32_t requests) {
  constexpr int64_t kStepTokens = StepBudget{}.rows;
  constexpr int64_t kMeasuredTokens = kMaxMeasuredContext + kMaxMeasuredRows;
  const int64_t of_request = blocks_for(window_tokens) + 1 + blocks_for(kTreeReserveTokens);
  return std::max(blocks_for(kMeasuredTokens), requests * of_request + blocks_for(kStepTokens));
}

}  // namespace

Result<MemoryPlan> plan_memory(const EngineOptions& options, int32_t longest_context,
                               bool has_draft, std::vector<DeviceMemory> memories,
                               int32_t target_stages) {
  // A context of 1 would leave no room for an output token.
  if (options.max_context_tokens < 0 || options.max_context_tokens == 1 ||
      options.max_context_tokens > longest_context) {
    return Status(StatusCode::kInvalidArgument,
                  "context: found " + std::to_string(options.max_context_tokens) +
                      " tokens; accepted: 2 to " + std::to_string(longest_context) +
                      ", what the checkpoint was made for");
  }
  const int32_t requests = std::max(1, options.max_active_requests);
  const bool draft_keeps_all = options.draft_window == 0;
  const KeepingAll keeping_all(draft_keeps_all);
  const int32_t context =
      options.max_context_tokens > 0 ? options.max_context_tokens : longest_context;
  const int32_t tree = tree_tokens(target_stages);
  const int64_t needed_blocks = blocks_for(int64_t{context} + tree);
  const int64_t wanted_blocks = needed_blocks * requests;
  const int64_t window_blocks =
      has_draft && !draft_keeps_all
          ? std::min(wanted_blocks, blocks_of_windows(options.draft_window, requests))
          : 0;
  const auto window_bytes = [&](const DeviceMemory& memory) {
    return window_blocks * memory.need(Role::kDraft).kv_block_bytes;
  };
  int64_t room = 0;
  int64_t all_token_bytes = 0;
  int64_t all_window_bytes = 0;
  std::string names;
  for (const DeviceMemory& memory : memories) {
    names += (names.empty() ? "" : ", ") + memory.name;
    room += std::max<int64_t>(memory.room_bytes(), 0);
    all_token_bytes += keeping_all.token_bytes(memory);
    all_window_bytes += window_bytes(memory);
  }
  if (options.kv_memory_bytes < 0 || options.kv_memory_bytes > room) {
    return Status(StatusCode::kResourceExhausted, "KV memory: found " +
                                                      describe_bytes(options.kv_memory_bytes) +
                                                      "; accepted: up to " + describe_bytes(room) +
                                                      ", as much as is free (" + names + ")");
  }
  // The memory with room for the fewest blocks decides.
  int64_t limit_blocks = std::numeric_limits<int64_t>::max();
  const DeviceMemory* tightest = nullptr;
  int64_t limit = 0;
  for (const DeviceMemory& memory : memories) {
    const int64_t bytes_of_token = keeping_all.token_bytes(memory);
    if (bytes_of_token == 0) continue;  // its devices hold no KV heads
    int64_t bytes = default_kv_bytes(memory) - window_bytes(memory);
    if (options.kv_memory_bytes > 0) {
      const double share =
          static_cast<double>(bytes_of_token) / static_cast<double>(all_token_bytes);
      const int64_t left = options.kv_memory_bytes - all_window_bytes;
      bytes = memories.size() == 1
                  ? left
                  : std::min(memory.room_bytes() - window_bytes(memory),
                             static_cast<int64_t>(share * static_cast<double>(left)));
    }
    bytes = std::max<int64_t>(bytes, 0);
    const int64_t blocks = bytes / (bytes_of_token * kKvBlockTokens);
    if (blocks >= limit_blocks) continue;
    limit_blocks = blocks;
    tightest = &memory;
    limit = bytes;
  }

  MemoryPlan plan;
  plan.tree_tokens = tree;
  plan.max_context_tokens = context;
  if (needed_blocks > limit_blocks) {
    const int64_t fits = limit_blocks * kKvBlockTokens - tree;
    if (options.max_context_tokens > 0 || fits < kKvBlockTokens) {
      return Status(
          StatusCode::kResourceExhausted,
          "KV cache: " + std::to_string(context) + " tokens of context need " +
              describe_bytes(needed_blocks * kKvBlockTokens * keeping_all.token_bytes(*tightest)) +
              " of " + tightest->name + " (" + keeping_all.describe_token(*tightest) +
              "), the limit is " + describe_bytes(limit) +
              (window_blocks == 0
                   ? ""
                   : " beside " + describe_bytes(all_window_bytes) + " for the draft's windows") +
              (fits < kKvBlockTokens ? ", not enough for any context"
                                     : "; a context of " + std::to_string(fits) + " tokens fits"));
    }
    plan.max_context_tokens = static_cast<int32_t>(fits);
  }
  // On a CPU, pages are committed when a token is written, so room for many requests costs nothing
  // until they arrive.
  plan.target_blocks = std::min(wanted_blocks, limit_blocks);
  if (has_draft) {
    plan.draft_window = options.draft_window;
    plan.draft_blocks = draft_keeps_all ? plan.target_blocks : window_blocks;
  }
  plan.memories = std::move(memories);
  return plan;
}

int64_t MemoryPlan::weight_bytes() const {
  int64_t bytes = 0;
  for (const DeviceMemory& memory : memories) bytes += memory.need().weight_bytes;
  return bytes;
}

int64_t MemoryPlan::kv_bytes() const {
  int64_t bytes = 0;
  for (const DeviceMemory& memory : memories) {
    for (const Role role : {Role::kTarget, Role::kDraft}) {
      bytes += kv_blocks(role) * memory.need(role).kv_block_bytes;
    }
  }
  return bytes;
}

}  // namespace forerun
