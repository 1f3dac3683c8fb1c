#include "views/vegas.h"

#include <algorithm>
#include <string>

#include "step/step.h"

namespace forerun {
namespace {

constexpr int32_t kObservers = 32;
constexpr int32_t kPooling = 5;
// A verification chooses once so many tokens have come since the last choice: every few rounds.
constexpr int32_t kTokensBetweenChoices = 16;
// The block that the next token falls into, and a whole one: observers that are run once more lie
// in them.
constexpr int32_t kLeastTailBlocks = 2;
// A tail grows until the next choice: by one more, where the budget has it.
constexpr int32_t kMostTailBlocks = kLeastTailBlocks + 1;
constexpr int32_t kLeastTokens = (kLeastTailBlocks + 1) * kKvBlockTokens;
static_assert(kObservers <= kKvBlockTokens);

}  // namespace

Status Vegas::check(int32_t budget_tokens) {
  if (budget_tokens >= kLeastTokens) return Status();
  return Status(StatusCode::kInvalidArgument,
                "view_budget: found " + std::to_string(budget_tokens) + ", view vegas accepts " +
                    std::to_string(kLeastTokens) +
                    " and more: " + std::to_string(kLeastTailBlocks) + " blocks of " +
                    std::to_string(kKvBlockTokens) +
                    " for the last tokens and one for what is chosen");
}

std::unique_ptr<KvView> Vegas::make(int32_t budget_tokens) {
  return std::make_unique<Vegas>(budget_tokens);
}

int32_t Vegas::own_blocks(int32_t budget_tokens, const KvShape& /*shape*/) {
  const int32_t blocks = budget_tokens / kKvBlockTokens;
  return blocks - std::clamp(blocks - 1, kLeastTailBlocks, kMostTailBlocks);
}

Vegas::Vegas(int32_t budget_tokens)
    : head_blocks_(own_blocks(budget_tokens, {})),
      most_tail_blocks_(budget_tokens / kKvBlockTokens - head_blocks_) {}

KvViewLayout Vegas::layout(int32_t prefix_tokens, const KvChosen& last) const {
  const int32_t blocks = prefix_tokens / kKvBlockTokens + 1;
  if (blocks <= head_blocks_ + most_tail_blocks_) return {};
  const bool keeps = last.tail_block > 0 && blocks - last.tail_block <= most_tail_blocks_;
  return {.head_blocks = head_blocks_,
          .tail_block = keeps ? last.tail_block : blocks - kLeastTailBlocks,
          .head_is_chosen = true,
          .chooses = !keeps};
}

KvViewLayout Vegas::layout_by_verification(int32_t prefix_tokens, const KvChosen& last) const {
  const bool is_recent =
      last.tail_block > 0 && prefix_tokens - last.prefix_tokens < kTokensBetweenChoices;
  return is_recent ? KvViewLayout{} : layout(prefix_tokens, {});
}

KvChoice Vegas::choice() const {
  return {.by = KvObservers::kLastTokens, .observers = kObservers, .pooling = kPooling};
}

}  // namespace forerun
