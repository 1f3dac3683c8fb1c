#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/row_query.h"
#include "sampling/token_filters.h"

namespace forerun {
namespace {

constexpr float kLowestLogprob = -9999.0f;

struct BestKey {
  float key = -std::numeric_limits<float>::infinity();
  TokenId token = -1;  // nothing offered yet

  void offer(float other_key, TokenId other_token) {
    if (token < 0 || other_key > key || (other_key == key && other_token < token)) {
      key = other_key;
      token = other_token;
    }
  }
};

uint32_t target_bits(const RowContext& context, TokenId token) {
  return noise_bits(context.params->seed, NoiseStream::kTarget, context.position,
                    static_cast<uint32_t>(token));
}

float noisy_score(const ProcessedRow& row, const RowContext& context, const RankedToken& token) {
  return row.score_of(token.logit) + gumbel_noise(target_bits(context, token.token));
}

// A few kept tokens: each on its own, skipping those that even the largest noise cannot lift.
void draw_from_list(const ProcessedRow& row, const RowContext& context, BestKey* best) {
  for (const RankedToken& kept : row.kept) {
    if (kept.token == row.scan.part_best().token ||
        row.score_of(kept.logit) + kMaxGumbel + 0.01f < best->key) {
      continue;
    }
    best->offer(noisy_score(row, context, kept), kept.token);
  }
}

// Four blocks at a time: the kernel names the few tokens whose noise may be large enough, from bits
// alone; logarithms are taken for those that still matter.
void draw_from_all(const ProcessedRow& row, const RowContext& context, SamplerScratch& scratch,
                   BestKey* best) {
  constexpr int64_t kBlocks = 4;
  const std::span<const float> logits = row.scan.logits().values;
  const TokenId first_token = row.scan.logits().first_token;
  const auto count = static_cast<int64_t>(logits.size());
  const int64_t blocks = (count + kScanBlock - 1) / kScanBlock;
  const uint64_t seed = context.params->seed;
  const NoiseKey key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                     static_cast<uint32_t>(context.position),
                     static_cast<uint32_t>(NoiseStream::kTarget),
                     static_cast<uint32_t>(first_token)};
  scratch.survivors.resize(static_cast<size_t>(kBlocks * kScanBlock));
  const ScanKernels& kernels = scan_kernels();
  for (int64_t block = 0; block < blocks; block += kBlocks) {
    const int32_t found = kernels.noise_survivors(
        logits.data(), count, row.scan.lane_max().data(), row.scale, key, best->key, block,
        std::min(block + kBlocks, blocks), scratch.survivors.data());
    if (found == 0) continue;
    const std::span<Survivor> survivors(scratch.survivors.data(), static_cast<size_t>(found));
    // The most promising one first: it rules out most of the others.
    std::swap(survivors[0], *std::max_element(survivors.begin(), survivors.end(),
                                              [](const Survivor& a, const Survivor& b) {
                                                return a.bound < b.bound;
                                              }));
    for (const Survivor& survivor : survivors) {
      const RankedToken token{logits[static_cast<size_t>(survivor.token)],
                              first_token + survivor.token};
      if (survivor.bound < best->key || !row.keeps(token)) continue;
      best->offer(row.score_of(token.logit) + gumbel_noise(survivor.noise_bits), token.token);
    }
  }
}

double log_total(uint64_t fixed) {
  return std::log(static_cast<double>(fixed) / kFixedWeightScale);
}

// The part's best sum of score and noise. A device may have named the few tokens that can have it.
Status draw_from_part(const RowContext& context, SamplerScratch& scratch, ProcessedRow* row,
                      BestKey* best) {
  constexpr size_t kListed = 1024;
  if (row->empty()) return {};
  std::span<const RankedToken> nominees;
  if (!row->filtered &&
      row->scan.nominees(sample_query(context, row->scan.logits().vocab), &nominees)) {
    for (const RankedToken& token : nominees) {
      best->offer(noisy_score(*row, context, token), token.token);
    }
    return {};
  }
  best->offer(noisy_score(*row, context, row->scan.part_best()), row->scan.part_best().token);
  if (row->filtered && row->kept.size() <= kListed) {
    draw_from_list(*row, context, best);
    return {};
  }
  FORERUN_RETURN_IF_ERROR(row->scan.read());
  draw_from_all(*row, context, scratch, best);
  return {};
}

// The token of an already processed row.
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

Status raw_logprobs(const RowLogits& logits, const RowContext& context, ProcessedRow* row,
                    SamplerScratch& scratch, SampledToken* out,
                    std::vector<Candidate>* alternatives) {
  RowScan unadjusted;
  if (row->adjusted) {
    FORERUN_RETURN_IF_ERROR(unadjusted.start(logits, context.position, &scratch.raw_lane_max));
  }
  RowScan& raw = row->adjusted ? unadjusted : row->scan;
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
  if (alternatives == nullptr || context.params->logprobs == 0) return {};
  FORERUN_RETURN_IF_ERROR(raw.best_tokens(context.params->logprobs, scratch.ids, scratch.ranked));
  std::vector<RankedToken>& best = of_all_parts(logits, scratch.ranked, scratch.merged);
  keep_best(best, context.params->logprobs, true);
  for (const RankedToken& ranked : best) {
    alternatives->push_back({ranked.token, logprob_of(ranked.logit)});
  }
  return {};
}

// The `limit` best kept tokens of the row; in scratch.
Status best_kept(int32_t limit, bool sorted, ProcessedRow* row, SamplerScratch& scratch,
                 std::vector<RankedToken>** best) {
  const RowLogits& logits = row->scan.logits();
  if (row->filtered) {
    scratch.ranked.assign(row->kept.begin(), row->kept.end());
    if (logits.peers != nullptr) keep_best(scratch.ranked, limit, false);
  } else {
    FORERUN_RETURN_IF_ERROR(row->scan.best_tokens(limit, scratch.ids, scratch.ranked));
  }
  *best = &of_all_parts(logits, scratch.ranked, scratch.merged);
  keep_best(**best, limit, sorted);
  return {};
}

// Log-probabilities of the processed distribution, best first.
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
  std::vector<RankedToken>* best = nullptr;
  FORERUN_RETURN_IF_ERROR(best_kept(count, true, row, scratch, &best));
  for (const RankedToken& ranked : *best) {
    const auto score = static_cast<double>(row->score_of(ranked.logit));
    out->push_back({ranked.token, static_cast<float>(score - log_sum)});
  }
  return {};
}

Status rank_by_shared_noise(const RowContext& context, int32_t count, ProcessedRow* row,
                            SamplerScratch& scratch, std::vector<Candidate>* out) {
  std::vector<RankedToken>* best = nullptr;
  FORERUN_RETURN_IF_ERROR(
      best_kept(std::max(count, kSharedNoiseCandidates), false, row, scratch, &best));
  for (const RankedToken& ranked : *best) {
    out->push_back({ranked.token, noisy_score(*row, context, ranked)});
  }
  const auto length = std::min(static_cast<size_t>(count), out->size());
  std::partial_sort(out->begin(), out->begin() + static_cast<ptrdiff_t>(length), out->end(),
                    [](const Candidate& a, const Candidate& b) {
                      return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
                    });
  // Log-softmax over all that were ranked, in double; the order of the sum only moves the last bit
  // of a weight that guides the draft.
  const auto top = static_cast<double>(out->front().logprob);
  double sum = 0.0;
  for (const Candidate& candidate : *out) {
    const double depth = static_cast<double>(candidate.logprob) - top;
    if (depth > -30.0) sum += static_cast<double>(exp_score(static_cast<float>(depth)));
  }
  const double log_sum = top + std::log(sum);
  out->resize(length);
  for (Candidate& candidate : *out) {
    candidate.logprob = static_cast<float>(static_cast<double>(candidate.logprob) - log_sum);
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

Status sample_token(const RowLogits& logits, const RowContext& context, SamplerScratch& scratch,
                    SampledToken* out, std::vector<Candidate>* alternatives) {
  ProcessedRow row;
  FORERUN_RETURN_IF_ERROR(process_logits(logits, context, scratch, &row));
  FORERUN_RETURN_IF_ERROR(draw_target_token(context, scratch, &row, &out->token));
  if (context.params->logprobs < 0) return {};
  return raw_logprobs(logits, context, &row, scratch, out, alternatives);
}

Status top_candidates(const RowLogits& logits, const RowContext& context, int32_t count,
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
  const RowLogits& logits = row.scan.logits();
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

Status draw_candidates(const RowLogits& logits, const RowContext& context, int32_t count,
                       SamplerScratch& scratch, std::vector<Candidate>* out,
                       DraftDistribution* distribution) {
  out->clear();
  const SamplingParams& params = *context.params;
  const bool draws = !is_greedy(params) && count > 0;
  const bool is_first = logits.peers == nullptr || logits.peers->rank() == 0;
  if (is_first) {
    // The others write their parts after they have met in process_logits.
    distribution->weights.clear();
    if (draws) distribution->weights.resize(static_cast<size_t>(logits.vocab));
    distribution->total = 0;
  }
  ProcessedRow row;
  FORERUN_RETURN_IF_ERROR(process_logits(logits, context, scratch, &row));
  if (count <= 0) return {};
  if (!draws) return rank_by_logprob(count, &row, scratch, out);
  FORERUN_RETURN_IF_ERROR(row.scan.read());
  // A part past the live vocabulary is empty and may begin beyond it.
  const size_t first =
      std::min(static_cast<size_t>(logits.first_token), distribution->weights.size());
  const std::span<float> weights =
      std::span(distribution->weights).subspan(first, logits.values.size());
  const uint64_t part = dense_weights(row, weights);
  // What lies before this part, and all.
  uint64_t before = 0;
  uint64_t total = 0;
  int32_t rank = 0;
  const int32_t my_rank = logits.peers == nullptr ? 0 : logits.peers->rank();
  for_each_part(logits, part, [&](uint64_t other) {
    if (rank++ < my_rank) before += other;
    total += other;
  });
  const double log_sum = log_total(total);
  struct Draw {
    int32_t number;
    Candidate candidate;
  };
  std::vector<Draw> mine;
  for (int32_t draw = 0; draw < count; ++draw) {
    uint64_t rest = scaled_random(noise_word64(params.seed, NoiseStream::kDraft, context.position,
                                               static_cast<uint32_t>(draw)),
                                  total);
    if (rest < before || rest - before >= part) continue;
    rest -= before;
    size_t index = 0;
    for (;; ++index) {
      const uint64_t weight = to_fixed_weight(weights[index]);
      if (rest < weight) break;
      rest -= weight;
    }
    const TokenId token = logits.first_token + static_cast<TokenId>(index);
    const float logit = row.scan.logits().values[index];
    const auto score = static_cast<double>(row.score_of(logit));
    mine.push_back({draw, {token, static_cast<float>(score - log_sum)}});
  }
  std::vector<Draw> gathered;
  out->resize(static_cast<size_t>(count));
  for (const Draw& draw : of_all_parts(logits, mine, gathered)) {
    (*out)[static_cast<size_t>(draw.number)] = draw.candidate;
  }
  if (is_first) distribution->total = total;
  return {};
}

}  // namespace forerun
