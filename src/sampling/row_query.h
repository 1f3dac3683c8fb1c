// Queries for rows of logits on a device, so that the sampler finds its answers in their summaries
// (kernels/logits_summary). A query that asks for too little costs time, not exactness: the sampler
// then reads the logits. If the context edits the logits (is_adjusted()), the device must apply the
// edits first: the caller passes them (RowQuery::edits) or asks for whole logits.
#pragma once

#include <cstdint>

#include "kernels/logits_summary/logits_summary.h"
#include "sampling/logits_processor.h"

namespace forerun {

// Return the queries of sample_token(), top_candidates() and draw_candidates() (sampling/sampler.h)
// for a row of `vocab` tokens.
RowQuery sample_query(const RowContext& context, int32_t vocab);
RowQuery candidates_query(const RowContext& context, int32_t count, bool shared_noise,
                          int32_t vocab);
RowQuery draw_query(const RowContext& context, int32_t count, int32_t vocab);

}  // namespace forerun
