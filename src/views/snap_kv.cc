#include "views/snap_kv.h"

#include "step/step.h"

namespace forerun {
namespace {

constexpr int32_t kSnapObservers = 32;
constexpr int32_t kSnapPooling = 5;
// The block that the next token falls into, and a whole one; the observers lie in these two.
constexpr int32_t kSnapMinTailBlocks = 2;
static_assert(kSnapObservers <= kKvBlockTokens);

}  // namespace

Status SnapKv::check(int32_t budget_tokens) {
  return GatheredBudget::check("snapkv", budget_tokens, kSnapMinTailBlocks, kSnapObservers);
}

int32_t SnapKv::own_blocks(int32_t budget_tokens, const KvShape& /*shape*/) {
  return SnapKv(budget_tokens).budget_.head_blocks();
}

int32_t SnapKv::tokens_between_reruns(int32_t budget_tokens) {
  return SnapKv(budget_tokens).budget_.tokens_between_choices();
}

SnapKv::SnapKv(int32_t budget_tokens)
    : budget_(budget_tokens, kSnapMinTailBlocks, budget_tokens / kKvBlockTokens / 2) {}

KvViewLayout SnapKv::layout(int32_t prefix_tokens, const KvChosen& last) const {
  return budget_.layout(prefix_tokens, last);
}

KvChoice SnapKv::choice() const {
  return {.by = KvObservers::kLastTokens, .observers = kSnapObservers, .pooling = kSnapPooling};
}

}  // namespace forerun
