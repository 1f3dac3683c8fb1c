#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/status_macros.h"
#include "sampling/noisy_sums.h"
#include "sampling/row_query.h"

namespace forerun {
namespace {

struct BestKey {
  float key = -std::numeric_limits<float>::infinity();
  TokenId token = -1;  // -1: no token has been offered yet

  void offer(float other_key, TokenId other_token) {
    if (token < 0 || other_key > key || (other_key == key && other_token < token)) {
      key = other_key;
      token = other_token;
    }
  }
};

// Samples from a few kept tokens one by one, and skips tokens that cannot win even with the largest
// noise.
void draw_from_list(const ProcessedRow& row, const RowContext& context, BestKey* best) {
  for (const RankedToken& kept : row.kept) {
    if (kept.token == row.scan.part_best().token ||
        row.score_of(kept.logit) + kMaxGumbel + 0.01f < best->key) {
      continue;
    }
    best->offer(noisy_score(row, context, kept), kept.token);
  }
}

// Finds the part's best sum of score and noise. A device may have listed the few tokens that can
// have it.
Status draw_from_part(const RowContext& context, SamplerScratch& scratch, ProcessedRow* row,
                      BestKey* best) {
  if (row->empty()) return {};
  std::span<const RankedToken> candidates;
  if (!row->filtered &&
      row->scan.candidates_for_draw(sample_query(context, row->scan.logits().vocab), &candidates)) {
    for (const RankedToken& token : candidates) {
      best->offer(noisy_score(*row, context, token), token.token);
    }
    return {};
  }
  best->offer(noisy_score(*row, context, row->scan.part_best()), row->scan.part_best().token);
  if (row->filtered && row->kept.size() <= kMaxListed) {
    draw_from_list(*row, context, best);
    return {};
  }
  FORERUN_RETURN_IF_ERROR(row->scan.read());
  offer_from_all(
      *row, context, scratch, [best] { return best->key; },
      [best](float sum, TokenId token) { best->offer(sum, token); });
  return {};
}

// Samples the token of a processed row.
Status draw_target_token(const RowContext& context, SamplerScratch& scratch, ProcessedRow* row,
                         TokenId* token) {
  *token = row->scan.best().token;
  if (is_greedy(*context.params)) return {};
  BestKey part;
  FORERUN_RETURN_IF_ERROR(draw_from_part(context, scratch, row, &part));
  BestKey best;
  for_each_part(row->scan.logits(), part, [&best](const BestKey& other) {
    if (other.token >= 0) best.offer(other.key, other.token);
  });
  *token = best.token;
  return {};
}

// `raw` has the unedited logits.
Status raw_logprobs(const LogitsRow& logits, int32_t count, RowScan& raw, SamplerScratch& scratch,
                    SampledToken* out, std::vector<Candidate>* alternatives) {
  const float raw_max = raw.best().logit;
  struct Part {
    uint64_t weight = 0;
    float drawn_logit = 0.0f;
    int32_t has_drawn = 0;
  };
  Part part;
  FORERUN_RETURN_IF_ERROR(raw.weight_sum({raw_max, 1.0f}, &part.weight));
  if (logits.holds(out->token)) {
    part.has_drawn = 1;
    FORERUN_RETURN_IF_ERROR(raw.logit(out->token, &part.drawn_logit));
  }
  uint64_t total = 0;
  float drawn_logit = 0.0f;
  for_each_part(logits, part, [&](const Part& other) {
    total += other.weight;
    if (other.has_drawn != 0) drawn_logit = other.drawn_logit;
  });
  const double log_sum = log_total(total);
  const auto logprob_of = [&](float logit) {
    return std::max(static_cast<float>(static_cast<double>(logit - raw_max) - log_sum),
                    kLowestLogprob);
  };
  out->logprob = logprob_of(drawn_logit);
  if (alternatives == nullptr || count == 0) return {};
  FORERUN_RETURN_IF_ERROR(raw.best_tokens(count, scratch.ids, scratch.ranked));
  std::vector<RankedToken>& best = of_all_parts(logits, scratch.ranked, scratch.merged);
  keep_best(best, count, true);
  for (const RankedToken& ranked : best) {
    alternatives->push_back({ranked.token, logprob_of(ranked.logit)});
  }
  return {};
}

}  // namespace

Status sample_token(const LogitsRow& logits, const RowContext& context, SamplerScratch& scratch,
                    SampledToken* out, std::vector<Candidate>* alternatives) {
  ProcessedRow row;
  FORERUN_RETURN_IF_ERROR(process_logits(logits, context, scratch, &row));
  FORERUN_RETURN_IF_ERROR(draw_target_token(context, scratch, &row, &out->token));
  const int32_t count = context.params->logprobs;
  if (count < 0) return {};
  if (!row.adjusted) return raw_logprobs(logits, count, row.scan, scratch, out, alternatives);
  RowScan raw;
  FORERUN_RETURN_IF_ERROR(raw.start(logits, context.position, &scratch.raw_lane_max));
  return raw_logprobs(logits, count, raw, scratch, out, alternatives);
}

Status token_logprobs(const LogitsRow& logits, int32_t position, TokenId token, int32_t count,
                      SamplerScratch& scratch, float* logprob,
                      std::vector<Candidate>* alternatives) {
  RowScan raw;
  FORERUN_RETURN_IF_ERROR(raw.start(logits, position, &scratch.raw_lane_max));
  SampledToken chosen;
  chosen.token = token;
  FORERUN_RETURN_IF_ERROR(raw_logprobs(logits, count, raw, scratch, &chosen, alternatives));
  *logprob = chosen.logprob;
  return {};
}

}  // namespace forerun
