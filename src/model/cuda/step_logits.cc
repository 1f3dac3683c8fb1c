#include "model/cuda/step_logits.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "kernels/logits_summary/cuda/logits_summary.h"

namespace forerun::cuda {
namespace {

// Limit for the bytes of a pass's lists of biases and counts, which are copied with the Step's
// data.
constexpr size_t kMaxEditBytesCuda = size_t{1} << 20;
static_assert(kMaxEditBytesCuda < kStepBytesCuda / 2);

bool is_edited(const RowQuery& query) {
  return query.kinds != RowQuery::kLogits && query.edits != RowQuery::kNone;
}

int32_t mask_of(const RowQuery& query, const StepEdits& edits) {
  return is_edited(query) ? edits.row(query.edits).mask : -1;
}

}  // namespace

int64_t StepLogitsCuda::stride() const {
  return (int64_t{num_tokens_} + kTileOutputs - 1) / kTileOutputs * kTileOutputs;
}

void StepLogitsCuda::start(int64_t rows, std::span<const RowQuery> queries) {
  queries_.assign(queries.begin(), queries.end());
  queries_.resize(static_cast<size_t>(rows));  // a default query asks for a whole row
  for (RowQuery& query : queries_) {
    query.vocab = std::min(query.vocab, num_tokens_);
    const bool sums = (query.kinds & (RowQuery::kWeights | RowQuery::kRawWeights)) != 0;
    if (sums && !sums_known_) query.kinds = RowQuery::kLogits;
  }
  fetched_.assign(static_cast<size_t>(rows), false);
  first_of_pass_ = 0;
  shards_.clear();
}

Status StepLogitsCuda::make_room(int64_t rows, int64_t masks) {
  const auto larger = [](int64_t wanted, int64_t capacity) {
    return wanted <= capacity ? capacity : std::max({wanted, 2 * capacity, int64_t{64}});
  };
  if (rows > capacity_) {
    const int64_t capacity = larger(rows, capacity_);
    FORERUN_ASSIGN_OR_RETURN(
        rows_, PinnedBuffer::allocate(static_cast<size_t>(capacity * stride()) * sizeof(float),
                                      "logits on the host"));
    capacity_ = capacity;
  }
  if (masks > mask_capacity_) {
    const int64_t capacity = larger(masks, mask_capacity_);
    const int64_t words = capacity * mask_words_cuda(num_tokens_);
    FORERUN_ASSIGN_OR_RETURN(
        masks_,
        PinnedBuffer::allocate(static_cast<size_t>(words) * sizeof(uint32_t), "masks of tokens"));
    mask_capacity_ = capacity;
  }
  return {};
}

void StepLogitsCuda::limit_lists(std::span<RowQuery> queries, const StepEdits& edits) const {
  size_t bytes = 0;
  const TokenCount* history = nullptr;  // the previous row's; the next row may share it
  for (RowQuery& query : queries) {
    if (!is_edited(query)) continue;
    const RowEdits& row = edits.row(query.edits);
    size_t added = sizeof(RowEditsCuda) + row.biases.size_bytes() + row.path.size_bytes() + 32;
    if (row.history.data() != history) added += row.history.size_bytes() + 16;
    if (bytes + added > kMaxEditBytesCuda) {
      query.kinds = RowQuery::kLogits;
      continue;
    }
    bytes += added;
    history = row.history.data();
  }
}

HostLogits StepLogitsCuda::of_pass(int64_t first, int64_t count, const StepEdits& edits) {
  const auto queries =
      std::span(queries_).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  if (first + count < static_cast<int64_t>(queries_.size())) {
    for (RowQuery& query : queries) query.kinds = RowQuery::kLogits;
  }
  limit_lists(queries, edits);
  if (count > 0) first_of_pass_ = first;
  return {.rows = rows_.as<float>() + first * stride(), .stride = stride(), .queries = queries};
}

void StepLogitsCuda::append_edits(std::span<const RowQuery> queries, const StepEdits& edits,
                                  StepBlockCuda& block) const {
  block.append_edits(queries, edits, masks_.as<uint32_t>(), mask_words_cuda(num_tokens_));
}

int32_t StepLogitsCuda::count_masks(std::span<const RowQuery> queries, const StepEdits& edits) {
  return static_cast<int32_t>(
      std::count_if(queries.begin(), queries.end(),
                    [&](const RowQuery& query) { return mask_of(query, edits) >= 0; }));
}

void StepLogitsCuda::write_masks(std::span<const RowQuery> queries, const StepEdits& edits) {
  const int64_t words = mask_words_cuda(num_tokens_);
  for (const RowQuery& query : queries) {
    const int32_t mask = mask_of(query, edits);
    if (mask < 0) continue;
    edits.write_mask(mask,
                     std::span(masks_.as<uint32_t>() + mask * words, static_cast<size_t>(words)));
  }
}

void StepLogitsCuda::finish(std::vector<ShardCuda*> shards) {
  shards_ = std::move(shards);
  if (shards_.size() < 2) return;
  const size_t count = queries_.size() - static_cast<size_t>(first_of_pass_);
  merged_.resize(std::max(merged_.size(), count));
  std::vector<const LogitsSummary*> parts(shards_.size());
  for (size_t pass_row = 0; pass_row < count; ++pass_row) {
    if (queries_[static_cast<size_t>(first_of_pass_) + pass_row].kinds == RowQuery::kLogits) {
      continue;
    }
    for (size_t part = 0; part < parts.size(); ++part) {
      parts[part] = &shards_[part]->summary(static_cast<int32_t>(pass_row));
    }
    merge_logits_summaries(parts, &merged_[pass_row]);
  }
}

const LogitsSummary* StepLogitsCuda::summary(int32_t logits_row) const {
  if (query(logits_row).kinds == RowQuery::kLogits) return nullptr;
  const auto pass_row = static_cast<int32_t>(logits_row - first_of_pass_);
  return shards_.size() == 1 ? &shards_[0]->summary(pass_row)
                             : &merged_[static_cast<size_t>(pass_row)];
}

Status StepLogitsCuda::fetch(int32_t logits_row) {
  if (summary(logits_row) == nullptr) return {};
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
