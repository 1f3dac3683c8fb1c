#include "strategies/autoregressive.h"

#include <utility>

namespace forerun {

void Autoregressive::start(const RequestView& request, StrategyOutput& out) {
  sequence_ = request.sequence;
  length_ = static_cast<int32_t>(request.tokens.size());
  max_tokens_ = request.max_tokens;
  if (length_ == 0 || length_ >= max_tokens_) return;
  WorkItem item;
  item.sequence = sequence_;
  item.role = Role::kTarget;
  const int32_t known = request.kv_tokens[static_cast<size_t>(Role::kTarget)];
  item.rows.reserve(static_cast<size_t>(length_ - known));
  for (int32_t position = known; position < length_; ++position) {
    item.rows.push_back(
        {.token = request.tokens[static_cast<size_t>(position)], .position = position});
  }
  if (known > 0) ++stats_.target_steps;  // the prompt needs no prefill
  item.rows.back().want = Want::kSample;
  out.work.push_back(std::move(item));
}

void Autoregressive::on_result(const WorkResult& result, StrategyOutput& out) {
  if (!result.status.ok() || result.rows.empty()) return;
  const RowResult& row = result.rows.back();
  out.error = row.status;
  if (!out.error.ok()) return;
  out.tokens.push_back({.token = row.token, .logprob = row.logprob, .top = row.top});
  ++stats_.emitted_tokens;
  const int32_t position = length_++;
  if (length_ >= max_tokens_) return;
  WorkItem item;
  item.sequence = sequence_;
  item.role = Role::kTarget;
  item.tag = static_cast<uint64_t>(position);
  item.rows.push_back({.token = row.token, .position = position, .want = Want::kSample});
  out.work.push_back(std::move(item));
  ++stats_.target_steps;
}

}  // namespace forerun
