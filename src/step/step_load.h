// The load of a Step: the counts that determine its duration.
#pragma once

#include <cstdint>

#include "step/step.h"

namespace forerun {

struct StepLoad {
  int32_t rows = 0;
  // KV tokens that the Step reads: the context of each of its sequences, once. A sequence's context
  // is the largest number of tokens that one of its rows attends to.
  int64_t kv_tokens = 0;
  int32_t sequences = 1;
  // Pairs of a row and a token that it attends to. A plain decoding Step has as many as kv_tokens,
  // a prompt of n tokens has about n * n / 2.
  int64_t attended_tokens = 0;
  // True if some rows attend to only a part of their context: draft rows of a target that drafts
  // for itself, or of a draft model with a window. StepCosts corrects such Steps separately.
  bool through_view = false;
};

StepLoad load_of(const Step& step);

// Returns the load of a Step to which each of `sequences` sequences adds `rows` rows behind
// `context` tokens.
constexpr StepLoad even_load(int32_t sequences, int32_t rows, int64_t context) {
  return {sequences * rows, sequences * context, sequences, sequences * rows * context};
}

}  // namespace forerun
