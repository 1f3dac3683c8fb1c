// What to ask of a row's logits where they lie on a device, so that the sampler finds its answers
// in the summary (kernels/row_digest). A question that asks for too little costs time, never
// exactness: the sampler then reads the logits. Where the context edits them (is_adjusted()), the
// device must do so first: whoever asks says how (RowQuery::edits), or asks for whole logits.
#pragma once

#include <cstdint>

#include "kernels/row_digest/row_digest.h"
#include "sampling/logits_processor.h"

namespace forerun {

// For sample_token, top_candidates and draw_candidates (sampling/sampler.h) of a row of `vocab`
// tokens.
RowQuery sample_query(const RowContext& context, int32_t vocab);
RowQuery candidates_query(const RowContext& context, int32_t count, bool shared_noise,
                          int32_t vocab);
RowQuery draw_query(const RowContext& context, int32_t count, int32_t vocab);

}  // namespace forerun
