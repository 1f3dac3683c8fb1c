#include "views/snap_kv.h"

#include <algorithm>
#include <string>

#include "step/step.h"

namespace forerun {
namespace {

constexpr int32_t kObservers = 32;
constexpr int32_t kPooling = 5;
// The block that the next token falls into, and a whole one: the observers lie in them.
constexpr int32_t kLeastTailBlocks = 2;
constexpr int32_t kLeastTokens = (kLeastTailBlocks + 1) * kKvBlockTokens;
static_assert(kObservers <= kKvBlockTokens);

}  // namespace

Status SnapKv::check(int32_t budget_tokens) {
  if (budget_tokens >= kLeastTokens) return Status();
  return Status(StatusCode::kInvalidArgument,
                "view_budget: found " + std::to_string(budget_tokens) + ", view snapkv accepts " +
                    std::to_string(kLeastTokens) +
                    " and more: " + std::to_string(kLeastTailBlocks) + " blocks of " +
                    std::to_string(kKvBlockTokens) + " for the last tokens, of which " +
                    std::to_string(kObservers) + " observe, and one for what they choose");
}

std::unique_ptr<KvView> SnapKv::make(int32_t budget_tokens) {
  return std::make_unique<SnapKv>(budget_tokens);
}

int32_t SnapKv::own_blocks(int32_t budget_tokens, const KvShape& /*shape*/) {
  const int32_t blocks = budget_tokens / kKvBlockTokens;
  return blocks - std::max(blocks / 2, kLeastTailBlocks);
}

SnapKv::SnapKv(int32_t budget_tokens)
    : head_blocks_(own_blocks(budget_tokens, {})),
      most_tail_blocks_(budget_tokens / kKvBlockTokens - head_blocks_) {}

KvViewLayout SnapKv::layout(int32_t prefix_tokens, const KvChosen& last) const {
  const int32_t blocks = prefix_tokens / kKvBlockTokens + 1;
  if (blocks <= head_blocks_ + most_tail_blocks_) return {};
  KvViewLayout layout{.head_blocks = head_blocks_, .head_is_chosen = true};
  const bool keeps = last.tail_block > 0 && blocks - last.tail_block <= most_tail_blocks_;
  layout.tail_block = keeps ? last.tail_block : blocks - kLeastTailBlocks;
  layout.chooses = !keeps;
  return layout;
}

KvChoice SnapKv::choice() const {
  return {.by = KvObservers::kLastTokens, .observers = kObservers, .pooling = kPooling};
}

}  // namespace forerun
