#include "views/top_k.h"

#include <string>

#include "step/step.h"

namespace forerun {
namespace {

// Of more rows, which are a prompt's or a wide tree's, the first ones choose for all.
constexpr int32_t kMostObservers = 32;
constexpr int32_t kTailBlocks = 1;  // the one that the next token falls into
constexpr int32_t kLeastTokens = (kTailBlocks + 1) * kKvBlockTokens;

}  // namespace

Status TopK::check(int32_t budget_tokens) {
  if (budget_tokens >= kLeastTokens) return Status();
  return Status(StatusCode::kInvalidArgument,
                "view_budget: found " + std::to_string(budget_tokens) + ", view topk accepts " +
                    std::to_string(kLeastTokens) + " and more: a block of " +
                    std::to_string(kKvBlockTokens) +
                    " for the last tokens and one for what is chosen");
}

std::unique_ptr<KvView> TopK::make(int32_t budget_tokens) {
  return std::make_unique<TopK>(budget_tokens);
}

int32_t TopK::own_blocks(int32_t budget_tokens, const KvShape& /*shape*/) {
  return budget_tokens / kKvBlockTokens - kTailBlocks;
}

TopK::TopK(int32_t budget_tokens) : head_blocks_(own_blocks(budget_tokens, {})) {}

KvViewLayout TopK::layout(int32_t prefix_tokens, const KvChosen& /*last*/) const {
  const int32_t tail_block = prefix_tokens / kKvBlockTokens + 1 - kTailBlocks;
  if (tail_block <= head_blocks_) return {};
  return {.head_blocks = head_blocks_,
          .tail_block = tail_block,
          .head_is_chosen = true,
          .chooses = true};
}

KvChoice TopK::choice() const {
  return {.by = KvObservers::kOwnRows, .observers = kMostObservers, .pooling = 1};
}

}  // namespace forerun
