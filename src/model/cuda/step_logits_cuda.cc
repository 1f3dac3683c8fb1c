#include "model/cuda/step_logits_cuda.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace forerun::cuda {

int64_t StepLogitsCuda::stride() const {
  return (int64_t{num_tokens_} + kTileOutputs - 1) / kTileOutputs * kTileOutputs;
}

void StepLogitsCuda::start(int64_t rows, std::span<const RowQuery> queries) {
  queries_.assign(queries.begin(), queries.end());
  queries_.resize(static_cast<size_t>(rows));  // by itself a query asks for whole rows
  for (RowQuery& query : queries_) {
    const bool sums = (query.kinds & (RowQuery::kWeights | RowQuery::kRawWeights)) != 0;
    if (sums && !sums_known_) query.kinds = RowQuery::kLogits;
  }
  fetched_.assign(static_cast<size_t>(rows), false);
  first_of_pass_ = 0;
  shards_.clear();
}

Status StepLogitsCuda::make_room(int64_t rows) {
  if (has_room(rows)) return {};
  const int64_t capacity = std::max({rows, 2 * capacity_, int64_t{64}});
  FORERUN_ASSIGN_OR_RETURN(
      PinnedBuffer larger,
      PinnedBuffer::allocate(static_cast<size_t>(capacity * stride()) * sizeof(float),
                             "logits on the host"));
  rows_ = std::move(larger);
  capacity_ = capacity;
  return {};
}

HostLogits StepLogitsCuda::of_pass(int64_t first, int64_t count) {
  const auto begin = queries_.begin() + first;
  if (first + count < static_cast<int64_t>(queries_.size())) {
    std::for_each(begin, begin + count, [](RowQuery& query) { query.kinds = RowQuery::kLogits; });
  }
  if (count > 0) first_of_pass_ = first;
  return {.rows = rows_.as<float>() + first * stride(),
          .stride = stride(),
          .queries =
              std::span(queries_).subspan(static_cast<size_t>(first), static_cast<size_t>(count))};
}

void StepLogitsCuda::finish(std::vector<ShardCuda*> shards) {
  shards_ = std::move(shards);
  if (shards_.size() < 2) return;
  const size_t count = queries_.size() - static_cast<size_t>(first_of_pass_);
  merged_.resize(std::max(merged_.size(), count));
  std::vector<const RowDigest*> parts(shards_.size());
  for (size_t pass_row = 0; pass_row < count; ++pass_row) {
    if (queries_[static_cast<size_t>(first_of_pass_) + pass_row].kinds == RowQuery::kLogits) {
      continue;
    }
    for (size_t part = 0; part < parts.size(); ++part) {
      parts[part] = &shards_[part]->digest(static_cast<int32_t>(pass_row));
    }
    merge_row_digests(parts, &merged_[pass_row]);
  }
}

DistantLogits::Digested StepLogitsCuda::digest(int32_t logits_row) const {
  const RowQuery& query = queries_[static_cast<size_t>(logits_row)];
  if (query.kinds == RowQuery::kLogits) return {};
  const auto pass_row = static_cast<int32_t>(logits_row - first_of_pass_);
  return {&query, shards_.size() == 1 ? &shards_[0]->digest(pass_row)
                                      : &merged_[static_cast<size_t>(pass_row)]};
}

Status StepLogitsCuda::fetch(int32_t logits_row) {
  if (digest(logits_row).digest == nullptr) return {};
  const std::lock_guard lock(fetching_);
  if (fetched_[static_cast<size_t>(logits_row)]) return {};
  float* const row = rows_.as<float>() + logits_row * stride();
  for (ShardCuda* shard : shards_) {
    FORERUN_RETURN_IF_ERROR(shard->use());
    FORERUN_RETURN_IF_ERROR(
        shard->fetch_logits(static_cast<int32_t>(logits_row - first_of_pass_), row));
  }
  fetched_[static_cast<size_t>(logits_row)] = true;
  return {};
}

}  // namespace forerun::cuda
