#include "sampling/row_query.h"

#include <algorithm>

#include "base/noise.h"
#include "sampling/sampler.h"
#include "sampling/token_filters.h"

namespace forerun {
namespace {

// Returns the query of process_logits(), with the counter of the row's noise.
RowQuery processing_query(const RowContext& context, int32_t vocab) {
  const SamplingParams& params = *context.params;
  RowQuery query;
  query.vocab = vocab;
  query.kinds = 0;
  if (is_greedy(params)) return query;
  query.inv_temperature = 1.0f / params.temperature;
  query.seed_low = static_cast<uint32_t>(params.seed);
  query.seed_high = static_cast<uint32_t>(params.seed >> 32);
  query.position = context.position;
  ask_for_filters(params, vocab, &query);
  return query;
}

void ask_for_best(int32_t count, RowQuery* query) { query->top = std::max(query->top, count); }

// Replaces a query that no summary can answer by one for the logits.
RowQuery within_limits(RowQuery query) {
  if (query.top > RowQuery::kMaxTop) query.kinds = RowQuery::kLogits;
  return query;
}

// Adds the needs of rank_by_logprob() for `count` tokens.
void ask_for_logprobs(const RowContext& context, int32_t count, int32_t vocab, RowQuery* query) {
  if (!is_greedy(*context.params) && filters(*context.params, vocab)) return;
  query->kinds |= RowQuery::kWeights;
  ask_for_best(count, query);
}

}  // namespace

RowQuery sample_query(const RowContext& context, int32_t vocab) {
  const SamplingParams& params = *context.params;
  RowQuery query = processing_query(context, vocab);
  // Log-probabilities need the unedited logits, but a summary describes the edited ones.
  if (params.logprobs >= 0 && is_adjusted(context)) {
    query.kinds = RowQuery::kLogits;
    return query;
  }
  if (!is_greedy(params) && !filters(params, vocab)) query.kinds |= RowQuery::kNoise;
  if (params.logprobs >= 0) {
    query.kinds |= RowQuery::kRawWeights;
    ask_for_best(params.logprobs, &query);
  }
  return within_limits(query);
}

RowQuery candidates_query(const RowContext& context, int32_t count, bool shared_noise,
                          int32_t vocab) {
  RowQuery query = processing_query(context, vocab);
  if (count <= 0) return query;
  if (!shared_noise || is_greedy(*context.params)) {
    ask_for_logprobs(context, count, vocab, &query);
  } else if (!filters(*context.params, vocab)) {
    query.kinds |= RowQuery::kNoisyTop;
    ask_for_best(std::max(count, kSharedNoiseCandidates), &query);
  }
  return within_limits(query);
}

RowQuery draw_query(const RowContext& context, int32_t count, int32_t vocab) {
  RowQuery query = processing_query(context, vocab);
  if (count <= 0) return query;
  if (!is_greedy(*context.params)) {
    query.kinds = RowQuery::kLogits;
  } else {
    ask_for_logprobs(context, count, vocab, &query);
  }
  return within_limits(query);
}

}  // namespace forerun
