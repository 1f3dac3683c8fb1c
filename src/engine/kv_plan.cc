#include "engine/kv_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "step/step.h"

namespace forerun {
namespace {

// Tree rows beside a sequence's own tokens.
constexpr int32_t kTreeReserveTokens = 256;

std::string megabytes(int64_t bytes) {
  if (bytes >= int64_t{1'000'000'000'000}) {
    return std::to_string(bytes / 1'000'000'000'000) + " TB";
  }
  if (bytes < 1'000'000) return std::to_string((bytes + 999) / 1000) + " KB";
  return std::to_string(bytes / 1'000'000) + " MB";
}

int64_t bytes_of_token(const KvMemory& memory) {
  return std::accumulate(memory.token_bytes.begin(), memory.token_bytes.end(), int64_t{0});
}

// "1024 bytes a token: 512 + 512 on its devices"
std::string describe_token(const KvMemory& memory) {
  std::string text = std::to_string(bytes_of_token(memory)) + " bytes a token";
  if (memory.token_bytes.size() < 2) return text;
  for (size_t index = 0; index < memory.token_bytes.size(); ++index) {
    text += (index == 0 ? ": " : " + ") + std::to_string(memory.token_bytes[index]);
  }
  return text + " on its devices";
}

int64_t blocks_for(int64_t tokens) { return (tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

}  // namespace

Result<KvPlan> plan_kv(const EngineOptions& options, int32_t longest_context, bool has_draft,
                       std::span<const KvMemory> memories) {
  if (options.max_context_tokens < 0 || options.max_context_tokens > longest_context) {
    return Status(StatusCode::kInvalidArgument,
                  "context: found " + std::to_string(options.max_context_tokens) +
                      " tokens, accepted are 1 to " + std::to_string(longest_context) +
                      ", what the checkpoint was made for");
  }
  int64_t available = 0;
  int64_t token_bytes = 0;
  std::string names;
  for (const KvMemory& memory : memories) {
    names += (names.empty() ? "" : ", ") + memory.name;
    available += memory.available_bytes;
    token_bytes += bytes_of_token(memory);
  }
  if (options.kv_memory_bytes < 0 || options.kv_memory_bytes > available) {
    return Status(StatusCode::kResourceExhausted,
                  "KV memory: asked for " + megabytes(options.kv_memory_bytes) + ", " +
                      "available are " + megabytes(available) + " (" + names + ")");
  }
  // The memory with room for the fewest blocks decides.
  int64_t limit_blocks = std::numeric_limits<int64_t>::max();
  const KvMemory* tightest = nullptr;
  int64_t limit = 0;
  for (const KvMemory& memory : memories) {
    if (bytes_of_token(memory) == 0) continue;  // its devices have no heads
    int64_t bytes = memory.default_bytes;
    if (options.kv_memory_bytes > 0) {
      const double share =
          static_cast<double>(bytes_of_token(memory)) / static_cast<double>(token_bytes);
      bytes = memories.size() == 1
                  ? options.kv_memory_bytes
                  : std::min(
                        memory.available_bytes,
                        static_cast<int64_t>(share * static_cast<double>(options.kv_memory_bytes)));
    }
    const int64_t blocks = std::max<int64_t>(bytes, 0) / (bytes_of_token(memory) * kKvBlockTokens);
    if (blocks >= limit_blocks) continue;
    limit_blocks = blocks;
    tightest = &memory;
    limit = bytes;
  }
  const int32_t context =
      options.max_context_tokens > 0 ? options.max_context_tokens : longest_context;
  const int64_t needed_blocks = blocks_for(int64_t{context} + kTreeReserveTokens);

  KvPlan plan;
  plan.max_context_tokens = context;
  if (needed_blocks > limit_blocks) {
    const int64_t fits = limit_blocks * kKvBlockTokens - kTreeReserveTokens;
    if (options.max_context_tokens > 0 || fits < kKvBlockTokens) {
      return Status(StatusCode::kResourceExhausted,
                    "KV cache: " + std::to_string(context) + " tokens of context need " +
                        megabytes(needed_blocks * kKvBlockTokens * bytes_of_token(*tightest)) +
                        " of " + tightest->name + " (" + describe_token(*tightest) +
                        "), the limit is " + megabytes(limit));
    }
    plan.max_context_tokens = static_cast<int32_t>(fits);
  }
  // On a CPU pages are committed when a token is written, so room for many requests costs nothing
  // until they come.
  const int64_t wanted = needed_blocks * std::max(1, options.max_active_requests);
  plan.target_blocks = std::min(wanted, limit_blocks);
  plan.draft_blocks = has_draft ? plan.target_blocks : 0;
  return plan;
}

}  // namespace forerun
