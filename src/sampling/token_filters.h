// The filters of a processed row: top-k, then top-p over what top-k left, then min-p relative to
// the most likely token. Tokens are ordered by (logit descending, id ascending); every filter keeps
// a prefix of that order, and of a row in parts every part keeps its share of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/sampling_params.h"
#include "sampling/logits_processor.h"

namespace forerun {

// Top-p examines so many tokens before it sums the whole row by score: most rows need fewer.
inline constexpr int32_t kTopPTokens = 256;

// Whether top-k, or anything, filters a row of `vocab` tokens that is not greedy.
inline bool filters_top_k(const SamplingParams& params, int32_t vocab) {
  return params.top_k > 0 && params.top_k < vocab;
}
inline bool filters(const SamplingParams& params, int32_t vocab) {
  return filters_top_k(params, vocab) || params.top_p < 1.0f || params.min_p > 0.0f;
}

// Fills the kept tokens of `row`, which is complete otherwise, if `params` filters anything. Fails
// if RowScan::read() fails.
Status apply_filters(const SamplingParams& params, SamplerScratch& scratch, ProcessedRow* row);

}  // namespace forerun
