#include "server/http/body_budget.h"

namespace forerun::server {

bool BodyBudget::take(int64_t bytes, int64_t body_bytes) {
  const int64_t max_bytes = limit(body_bytes);
  int64_t used = used_;
  do {
    if (used + bytes > max_bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

BodyMemory::~BodyMemory() { budget_->used_ -= bytes_; }

bool BodyMemory::grow_to(int64_t bytes) {
  if (bytes <= bytes_) return true;
  if (!budget_->take(bytes - bytes_, bytes)) return false;
  bytes_ = bytes;
  return true;
}

}  // namespace forerun::server
