#include "views/pq_cache.h"

#include "views/kv_index_blocks.h"

namespace forerun {
namespace {

// If a prompt or a wide tree has more rows than this, the first ones choose for all.
constexpr int32_t kPqMaxObservers = 32;

}  // namespace

Status PqCache::check(int32_t budget_tokens) {
  return GatheredBudget::check("pqcache", budget_tokens, 0);
}

int32_t PqCache::own_blocks(int32_t budget_tokens, const KvShape& shape) {
  return PqCache(budget_tokens).budget_.head_blocks() +
         kv_index_blocks(shape.tokens, shape.head_dim);
}

PqCache::PqCache(int32_t budget_tokens) : budget_(budget_tokens, 0, 0) {}

KvViewLayout PqCache::layout(int32_t prefix_tokens, const KvChosen& /*last*/) const {
  return budget_.choose(prefix_tokens);
}

KvChoice PqCache::choice() const {
  return {.by = KvObservers::kOwnRows, .observers = kPqMaxObservers, .by_index = true};
}

}  // namespace forerun
