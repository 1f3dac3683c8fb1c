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

// Fills `row`'s kept tokens where `params` filters anything. The row is complete otherwise.
void apply_filters(const SamplingParams& params, SamplerScratch& scratch, ProcessedRow* row);

// The `limit` best tokens of the part that are not masked (fewer where there are fewer), best first
// if `sorted`. `part_max` is its largest logit, `lane_max` as of scan.h.
void best_of_part(const RowLogits& logits, std::span<const float> lane_max, float part_max,
                  int32_t limit, bool sorted, std::vector<int32_t>& ids,
                  std::vector<RankedToken>& out);

// Leaves the `limit` best of `tokens`, best first if `sorted`.
void keep_best(std::vector<RankedToken>& tokens, int32_t limit, bool sorted);

}  // namespace forerun
