#include "model/cuda/predicted_block.h"

#include <algorithm>
#include <utility>

namespace forerun::cuda {
namespace {

// Building a block of fewer rows takes only some microseconds.
constexpr size_t kFewestRows = 4;

// Returns whether the row is the only one of its sequence in the Step, as a decoding row is.
bool decodes(const Step& step, size_t row_idx) {
  const StepRow& row = step.rows[row_idx];
  const bool alone = row_idx == 0 || step.rows[row_idx - 1].sequence_idx != row.sequence_idx;
  return alone && row.wants_logits && row.boundary == row.visible && row.slot == row.visible - 1;
}

// Returns whether the Step has no selections, taps or features, which would need a prediction too.
bool is_plain(const Step& step) {
  return step.selections.empty() && step.taps.empty() && step.features.empty();
}

int32_t blocks_up_to(int32_t slot) { return slot / kTilePositions + 1; }

}  // namespace

void PredictedBlockCuda::predict(const Step& step, int32_t max_rows, const StepShapeCuda& shape,
                                 RopeTable& rope) {
  has_predicted_ = false;
  const size_t count = step.rows.size();
  if (count < kFewestRows || count > static_cast<size_t>(max_rows) || !is_plain(step)) {
    return;
  }
  size_t in_tables = 0;
  for (size_t row_idx = 0; row_idx < count; ++row_idx) {
    const StepRow& row = step.rows[row_idx];
    if (!decodes(step, row_idx) || row.position + 1 >= rope.max_position()) return;
    if ((row.slot + 1) % kTilePositions == 0) {
      in_tables += static_cast<size_t>(blocks_up_to(row.slot + 1));
    }
  }
  // Rows point to the tables, so the tables must not move.
  tables_.assign(in_tables, 0);
  int32_t* next_table = tables_.data();
  ahead_.rows.assign(step.rows.begin(), step.rows.end());
  ahead_.sequences.resize(count);
  for (size_t row_idx = 0; row_idx < count; ++row_idx) {
    StepRow& row = ahead_.rows[row_idx];
    const int32_t* table = step.sequences[static_cast<size_t>(row.sequence_idx)].block_table;
    ++row.position;
    ++row.slot;
    ++row.visible;
    ++row.boundary;
    if (row.slot % kTilePositions == 0) {
      const int32_t held = blocks_up_to(row.slot - 1);
      std::copy_n(table, held, next_table);
      table = next_table;
      next_table += held + 1;
    }
    row.sequence_idx = static_cast<int32_t>(row_idx);
    ahead_.sequences[row_idx].block_table = table;
  }
  no_queries_.resize(std::max(no_queries_.size(), count));
  block_.build(ahead_, 0, count, no_queries_, shape, rope);
  has_predicted_ = true;
}

bool PredictedBlockCuda::is_predicted(const Step& step) const {
  if (!has_predicted_ || step.rows.size() != ahead_.rows.size() || !is_plain(step)) {
    return false;
  }
  for (size_t row_idx = 0; row_idx < step.rows.size(); ++row_idx) {
    const StepRow& row = step.rows[row_idx];
    const StepRow& ahead = ahead_.rows[row_idx];
    if (!decodes(step, row_idx) || row.position != ahead.position || row.visible != ahead.visible) {
      return false;
    }
  }
  return true;
}

bool PredictedBlockCuda::take(const Step& step, std::span<const RowQuery> queries,
                              StepBlockCuda& block) {
  const bool predicted = is_predicted(step);
  has_predicted_ = false;
  if (!predicted) return false;
  block_.refill(step, queries);
  std::swap(block, block_);
  return true;
}

}  // namespace forerun::cuda
