#include "views/vegas.h"

#include "step/step.h"

namespace forerun {
namespace {

constexpr int32_t kVegasObservers = 32;
constexpr int32_t kVegasPooling = 5;
// A verification chooses the head if this many tokens have come since the last choice, which takes
// a few rounds.
constexpr int32_t kTokensBetweenChoices = 16;
// The tail may grow by one block until the next choice.
constexpr int32_t kVegasGrowthBlocks = 1;
static_assert(kVegasObservers < kKvBlockTokens);

}  // namespace

Status Vegas::check(int32_t budget_tokens) {
  return GatheredBudget::check("vegas", budget_tokens, kVegasObservers);
}

int32_t Vegas::own_blocks(int32_t budget_tokens, const KvShape& /*shape*/) {
  return Vegas(budget_tokens).budget_.head_blocks();
}

Vegas::Vegas(int32_t budget_tokens) : budget_(budget_tokens, kVegasObservers, kVegasGrowthBlocks) {}

KvViewLayout Vegas::layout(int32_t prefix_tokens, const KvChosen& last) const {
  return budget_.layout(prefix_tokens, last);
}

KvViewLayout Vegas::layout_by_verification(int32_t prefix_tokens, const KvChosen& last) const {
  const bool is_recent =
      last.tail_block > 0 && prefix_tokens - last.prefix_tokens < kTokensBetweenChoices;
  return is_recent ? KvViewLayout{} : budget_.choose(prefix_tokens);
}

KvChoice Vegas::choice() const {
  return {.by = KvObservers::kLastTokens, .observers = kVegasObservers, .pooling = kVegasPooling};
}

}  // namespace forerun
