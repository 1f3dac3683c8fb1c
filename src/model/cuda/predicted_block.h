// The block of the Step that will most likely come next, built while the device works on the
// current one. Where every sequence decodes a token, the next Step has the same rows, each one
// position further, so that only what could not be known is filled in between the two Steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/cuda/step_block.h"

namespace forerun::cuda {

// Reusable: keeps its memory. One thread.
class PredictedBlockCuda {
 public:
  // Predicts the Step after `step`. Predicts nothing if one of its rows is not the only one of its
  // sequence, sees more than its prefix or wants no logits, if rows choose KV, keep taps or have
  // features, or if there are more than `max_rows`, or so few that building a block takes no time.
  // Prepares `rope` for the next positions.
  void predict(const Step& step, int32_t max_rows, const StepShapeCuda& shape, RopeTable& rope);
  // Whether `step` is the predicted Step. If so, exchanges `block` for what build() would have made
  // of it. Either way forgets what was predicted.
  bool take(const Step& step, std::span<const RowQuery> queries, StepBlockCuda& block);

 private:
  bool is_predicted(const Step& step) const;

  bool has_predicted_ = false;
  Step ahead_;
  std::vector<int32_t> tables_;  // tables of sequences that will need a block that they do not have
                                 // yet
  std::vector<RowQuery> no_queries_;
  StepBlockCuda block_;
};

}  // namespace forerun::cuda
