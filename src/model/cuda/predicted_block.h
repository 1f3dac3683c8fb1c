// A prediction of the next Step's block, built while the device works on the current Step. If every
// sequence decodes a token, the next Step has the same rows, each at the next position. Then the
// host only fills in tokens and logits edits between the two Steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/cuda/step_block.h"

namespace forerun::cuda {

// Only one thread may use an object. It keeps its memory for later predictions.
class PredictedBlockCuda {
 public:
  // Predicts the Step after `step`. Predicts nothing if a row is not the only one of its sequence,
  // attends to more than its prefix or wants no logits; if rows choose KV, keep taps or have
  // features; if there are more than `max_rows` rows, or so few that building a block takes no
  // time. Prepares `rope` for the next positions.
  void predict(const Step& step, int32_t max_rows, const StepShapeCuda& shape, RopeTable& rope);
  // Returns whether `step` is the predicted Step. If so, exchanges `block` for the one that build()
  // would have made. Drops the prediction either way.
  bool take(const Step& step, std::span<const RowQuery> queries, StepBlockCuda& block);

 private:
  bool is_predicted(const Step& step) const;

  bool has_predicted_ = false;
  Step ahead_;
  std::vector<int32_t> tables_;  // tables of sequences that will need another block
  std::vector<RowQuery> no_queries_;
  StepBlockCuda block_;
};

}  // namespace forerun::cuda
