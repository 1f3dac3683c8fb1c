// Candidate lists of drafts (sampler.h), and the dense weights and noise words from which rule
// `rejection` samples candidates and its own tokens.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/status_macros.h"
#include "sampling/noisy_sums.h"
#include "sampling/row_query.h"
#include "sampling/sampler.h"

namespace forerun {
namespace {

// Finds the `limit` best kept tokens of the row, best first, in `scratch`.
Status best_kept(int32_t limit, ProcessedRow* row, SamplerScratch& scratch,
                 std::span<const RankedToken>* best) {
  const LogitsRow& logits = row->scan.logits();
  if (row->filtered) {
    scratch.ranked.assign(row->kept.begin(), row->kept.end());
    if (logits.peers != nullptr) keep_best(scratch.ranked, limit, false);
  } else {
    FORERUN_RETURN_IF_ERROR(row->scan.best_tokens(limit, scratch.ids, scratch.ranked));
  }
  std::vector<RankedToken>& all = of_all_parts(logits, scratch.ranked, scratch.merged);
  keep_best(all, limit, true);
  *best = all;
  return {};
}

// Computes log-probabilities of the processed distribution, best first.
Status rank_by_logprob(int32_t count, ProcessedRow* row, SamplerScratch& scratch,
                       std::vector<Candidate>* out) {
  uint64_t part = 0;
  if (row->filtered) {
    for (const RankedToken& kept : row->kept) {
      part += to_fixed_weight(exp_score(row->score_of(kept.logit)));
    }
  } else {
    FORERUN_RETURN_IF_ERROR(row->scan.weight_sum(row->scale, &part));
  }
  const double log_sum = log_total(sum_of_parts(row->scan.logits(), part));
  std::span<const RankedToken> best;
  FORERUN_RETURN_IF_ERROR(best_kept(count, row, scratch, &best));
  for (const RankedToken& ranked : best) {
    const auto score = static_cast<double>(row->score_of(ranked.logit));
    out->push_back({ranked.token, std::max(static_cast<float>(score - log_sum), kLowestLogprob)});
  }
  return {};
}

// The `limit` largest sums of score and noise among those offered, each in its candidate's
// `logprob`.
class LargestSums {
 public:
  LargestSums(int32_t limit, std::vector<Candidate>* sums)
      : limit_(static_cast<size_t>(limit)), sums_(sums) {
    sums_->clear();
  }
  void offer(float sum, TokenId token) {
    const Candidate offered{token, sum};
    if (sums_->size() == limit_) {
      if (!precedes(offered, sums_->front())) return;
      std::pop_heap(sums_->begin(), sums_->end(), precedes);
      sums_->pop_back();
    }
    sums_->push_back(offered);
    std::push_heap(sums_->begin(), sums_->end(), precedes);
  }
  // Returns the bound that a sum must reach.
  float least() const {
    return sums_->size() < limit_ ? -std::numeric_limits<float>::infinity()
                                  : sums_->front().logprob;
  }
  void sort() { std::sort_heap(sums_->begin(), sums_->end(), precedes); }

 private:
  static bool precedes(const Candidate& a, const Candidate& b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
  }
  size_t limit_;
  std::vector<Candidate>* sums_;
};

// Finds the part's largest sums. A device may have listed tokens that include them.
Status largest_sums_of_part(const RowContext& context, int32_t limit, ProcessedRow* row,
                            SamplerScratch& scratch, LargestSums* largest) {
  if (row->empty()) return {};
  const RowQuery query = candidates_query(context, limit, true, row->scan.logits().vocab);
  std::span<const RankedToken> listed = row->kept;
  const bool few =
      row->filtered ? row->kept.size() <= kMaxListed : row->scan.listed_by_noise(query, &listed);
  if (few) {
    for (const RankedToken& token : listed) {
      largest->offer(noisy_score(*row, context, token), token.token);
    }
    return {};
  }
  FORERUN_RETURN_IF_ERROR(row->scan.read());
  // The sums of the best tokens by logit give a lower bound from the start.
  float reached = std::numeric_limits<float>::lowest();
  if (!row->filtered) {
    FORERUN_RETURN_IF_ERROR(row->scan.best_tokens(limit, scratch.ids, scratch.ranked));
    if (scratch.ranked.size() == static_cast<size_t>(limit)) {
      reached = std::numeric_limits<float>::infinity();
      for (const RankedToken& token : scratch.ranked) {
        reached = std::min(reached, noisy_score(*row, context, token));
      }
    }
  }
  offer_from_all(
      *row, context, scratch, [&] { return std::max(reached, largest->least()); },
      [largest](float sum, TokenId token) { largest->offer(sum, token); });
  return {};
}

Status rank_by_shared_noise(const RowContext& context, int32_t count, ProcessedRow* row,
                            SamplerScratch& scratch, std::vector<Candidate>* out) {
  const LogitsRow& logits = row->scan.logits();
  const int32_t limit = std::max(count, kSharedNoiseCandidates);
  LargestSums largest(limit, out);
  FORERUN_RETURN_IF_ERROR(largest_sums_of_part(context, limit, row, scratch, &largest));
  if (logits.peers != nullptr) {
    gather_records<Candidate>(*logits.peers, *out, scratch.gathered);
    largest = LargestSums(limit, out);
    for (const Candidate& candidate : scratch.gathered) {
      largest.offer(candidate.logprob, candidate.token);
    }
  }
  largest.sort();
  // Computes the log-softmax over them in double; the order of the sum changes only the last bit of
  // a weight that guides the draft.
  const auto top = static_cast<double>(out->front().logprob);
  double sum = 0.0;
  for (const Candidate& candidate : *out) {
    const double depth = static_cast<double>(candidate.logprob) - top;
    if (depth > -30.0) sum += static_cast<double>(exp_score(static_cast<float>(depth)));
  }
  const double log_sum = top + std::log(sum);
  out->resize(std::min(static_cast<size_t>(count), out->size()));
  for (Candidate& candidate : *out) {
    candidate.logprob = std::max(
        static_cast<float>(static_cast<double>(candidate.logprob) - log_sum), kLowestLogprob);
  }
  return {};
}

__extension__ using Wide = unsigned __int128;

}  // namespace

uint64_t noise_word64(uint64_t seed, NoiseStream stream, int32_t position, uint32_t index) {
  const uint64_t high = noise_bits(seed, stream, position, 2 * index);
  const uint64_t low = noise_bits(seed, stream, position, 2 * index + 1);
  return high << 32 | low;
}

double noise_uniform53(uint64_t seed, NoiseStream stream, int32_t position, uint32_t index) {
  return static_cast<double>(noise_word64(seed, stream, position, index) >> 11) * 0x1p-53;
}

uint64_t scaled_random(uint64_t random, uint64_t total) {
  return static_cast<uint64_t>((static_cast<Wide>(random) * total) >> 64);
}

Status top_candidates(const LogitsRow& logits, const RowContext& context, int32_t count,
                      bool shared_noise, SamplerScratch& scratch, std::vector<Candidate>* out) {
  out->clear();
  ProcessedRow row;
  FORERUN_RETURN_IF_ERROR(process_logits(logits, context, scratch, &row));
  if (count <= 0) return {};
  if (shared_noise && !is_greedy(*context.params)) {
    return rank_by_shared_noise(context, count, &row, scratch, out);
  }
  return rank_by_logprob(count, &row, scratch, out);
}

uint64_t dense_weights(const ProcessedRow& row, std::span<float> weights) {
  const LogitsRow& logits = row.scan.logits();
  if (!row.filtered) {
    return scan_kernels().exp_weights(logits.values.data(),
                                      static_cast<int64_t>(logits.values.size()), row.scale,
                                      weights.data());
  }
  std::fill(weights.begin(), weights.end(), 0.0f);
  uint64_t total = 0;
  for (const RankedToken& kept : row.kept) {
    const float weight = exp_score(row.score_of(kept.logit));
    weights[static_cast<size_t>(kept.token - logits.first_token)] = weight;
    total += to_fixed_weight(weight);
  }
  return total;
}

Status draw_candidates(const LogitsRow& logits, const RowContext& context, int32_t count,
                       SamplerScratch& scratch, std::vector<Candidate>* out,
                       DraftDistribution* distribution) {
  out->clear();
  const SamplingParams& params = *context.params;
  const bool draws = !is_greedy(params) && count > 0;
  const bool is_first = logits.peers == nullptr || logits.peers->rank() == 0;
  if (is_first) {
    // The other devices write their parts after they have met in process_logits.
    distribution->weights.clear();
    if (draws) distribution->weights.resize(static_cast<size_t>(logits.vocab));
    distribution->total = 0;
  }
  ProcessedRow row;
  FORERUN_RETURN_IF_ERROR(process_logits(logits, context, scratch, &row));
  if (count <= 0) return {};
  if (!draws) return rank_by_logprob(count, &row, scratch, out);
  FORERUN_RETURN_IF_ERROR(row.scan.read());
  // A part beyond the live vocabulary is empty and may begin beyond it.
  const size_t first =
      std::min(static_cast<size_t>(logits.first_token), distribution->weights.size());
  const std::span<float> weights =
      std::span(distribution->weights).subspan(first, logits.values.size());
  const PartOfWeights part(logits, dense_weights(row, weights));
  const double log_sum = log_total(part.total);
  struct Draw {
    int32_t number;
    Candidate candidate;
  };
  std::vector<Draw> own_draws;
  for (int32_t draw = 0; draw < count; ++draw) {
    const uint64_t place =
        scaled_random(noise_word64(params.seed, NoiseStream::kDraft, context.position,
                                   static_cast<uint32_t>(draw)),
                      part.total);
    const int64_t index =
        part.find(place, [&](size_t token) { return to_fixed_weight(weights[token]); });
    if (index < 0) continue;
    const TokenId token = logits.first_token + static_cast<TokenId>(index);
    const float logit = row.scan.logits().at(token);
    const auto score = static_cast<double>(row.score_of(logit));
    own_draws.push_back({draw, {token, static_cast<float>(score - log_sum)}});
  }
  std::vector<Draw> gathered;
  out->resize(static_cast<size_t>(count));
  for (const Draw& draw : of_all_parts(logits, own_draws, gathered)) {
    (*out)[static_cast<size_t>(draw.number)] = draw.candidate;
  }
  if (is_first) distribution->total = part.total;
  return {};
}

}  // namespace forerun
