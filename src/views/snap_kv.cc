#include "views/snap_kv.h"

#include <algorithm>

#include "step/step.h"

namespace forerun {
namespace {

constexpr int32_t kSnapObservers = 32;
constexpr int32_t kSnapPooling = 5;
static_assert(kSnapObservers < kKvBlockTokens);

// Returns half of the budget, by which the sequence grows between two choices.
int32_t growth_blocks(int32_t budget_tokens) {
  return std::max(budget_tokens / 2 / kKvBlockTokens - 1, 1);
}

}  // namespace

Status SnapKv::check(int32_t budget_tokens) {
  return GatheredBudget::check("snapkv", budget_tokens, kSnapObservers);
}

int32_t SnapKv::own_blocks(int32_t budget_tokens, const KvShape& /*shape*/) {
  return SnapKv(budget_tokens).budget_.head_blocks();
}

int32_t SnapKv::tokens_between_reruns(int32_t budget_tokens) {
  return SnapKv(budget_tokens).budget_.tokens_between_choices();
}

SnapKv::SnapKv(int32_t budget_tokens)
    : budget_(budget_tokens, kSnapObservers, growth_blocks(budget_tokens)) {}

KvViewLayout SnapKv::layout(int32_t prefix_tokens, const KvChosen& last) const {
  return budget_.layout(prefix_tokens, last);
}

KvChoice SnapKv::choice() const {
  return {.by = KvObservers::kLastTokens, .observers = kSnapObservers, .pooling = kSnapPooling};
}

}  // namespace forerun
