// The filters of a processed row: top-k, then top-p over the tokens that top-k keeps, then min-p
// relative to the most likely token. Tokens are ordered by (logit descending, id ascending); every
// filter keeps a prefix of that order. If a row is in parts, every part keeps its share of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/sampling_params.h"
#include "kernels/logits_summary/logits_summary.h"
#include "sampling/logits_processor.h"

namespace forerun {

// Returns whether a filter applies to a row of `vocab` tokens that is not greedy.
bool filters(const SamplingParams& params, int32_t vocab);

// Sets in `query` the data that apply_filters() reads of a row of `vocab` tokens that is not
// greedy.
void ask_for_filters(const SamplingParams& params, int32_t vocab, RowQuery* query);

// Fills in the kept tokens of `row`, which is otherwise complete, if `params` has a filter. Fails
// if RowScan::read() fails.
Status apply_filters(const SamplingParams& params, SamplerScratch& scratch, ProcessedRow* row);

}  // namespace forerun
