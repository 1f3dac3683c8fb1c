#include "views/pq_cache.h"

#include <string>

#include "step/step.h"
#include "views/kv_index_blocks.h"

namespace forerun {
namespace {

// Of more rows, which are a prompt's or a wide tree's, the first ones choose for all.
constexpr int32_t kMostObservers = 32;
constexpr int32_t kTailBlocks = 1;  // the one that the next token falls into
constexpr int32_t kLeastTokens = (kTailBlocks + 1) * kKvBlockTokens;

}  // namespace

Status PqCache::check(int32_t budget_tokens) {
  if (budget_tokens >= kLeastTokens) return Status();
  return Status(StatusCode::kInvalidArgument,
                "view_budget: found " + std::to_string(budget_tokens) + ", view pqcache accepts " +
                    std::to_string(kLeastTokens) + " and more: a block of " +
                    std::to_string(kKvBlockTokens) +
                    " for the last tokens and one for what is chosen");
}

std::unique_ptr<KvView> PqCache::make(int32_t budget_tokens) {
  return std::make_unique<PqCache>(budget_tokens);
}

int32_t PqCache::own_blocks(int32_t budget_tokens, const KvShape& shape) {
  return budget_tokens / kKvBlockTokens - kTailBlocks +
         kv_index_blocks(shape.tokens, shape.head_dim);
}

PqCache::PqCache(int32_t budget_tokens)
    : head_blocks_(budget_tokens / kKvBlockTokens - kTailBlocks) {}

KvViewLayout PqCache::layout(int32_t prefix_tokens, const KvChosen& /*last*/) const {
  const int32_t tail_block = prefix_tokens / kKvBlockTokens + 1 - kTailBlocks;
  if (tail_block <= head_blocks_) return {};
  return {.head_blocks = head_blocks_,
          .tail_block = tail_block,
          .head_is_chosen = true,
          .chooses = true};
}

KvChoice PqCache::choice() const {
  return {.by = KvObservers::kOwnRows, .observers = kMostObservers, .by_index = true};
}

}  // namespace forerun
