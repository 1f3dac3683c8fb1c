#include "views/top_k.h"

namespace forerun {
namespace {

// If a prompt or a wide tree has more rows than this, the first ones choose for all.
constexpr int32_t kTopKMaxObservers = 32;

}  // namespace

Status TopK::check(int32_t budget_tokens) {
  return GatheredBudget::check("topk", budget_tokens, 0);
}

int32_t TopK::own_blocks(int32_t budget_tokens, const KvShape& /*shape*/) {
  return TopK(budget_tokens).budget_.head_blocks();
}

TopK::TopK(int32_t budget_tokens) : budget_(budget_tokens, 0, 0) {}

KvViewLayout TopK::layout(int32_t prefix_tokens, const KvChosen& /*last*/) const {
  return budget_.choose(prefix_tokens);
}

KvChoice TopK::choice() const {
  return {.by = KvObservers::kOwnRows, .observers = kTopKMaxObservers};
}

}  // namespace forerun
