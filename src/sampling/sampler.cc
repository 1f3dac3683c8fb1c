#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace forerun {
namespace {

// What a draft looks at under shared noise. A token further down is drawn by the target less often
// than it is worth a row of verification; the choice cannot change what comes out.
constexpr int32_t kSharedNoiseCandidates = 128;
constexpr float kLowestLogprob = -9999.0f;

struct BestKey {
  float key = -std::numeric_limits<float>::infinity();
  TokenId token = -1;

  void offer(float other_key, TokenId other_token) {
    if (other_key > key || (other_key == key && other_token < token)) {
      key = other_key;
      token = other_token;
    }
  }
};

float noisy_score(const ProcessedRow& row, TokenId token, uint32_t bits) {
  return row.score(token) + gumbel_noise(bits);
}

uint32_t target_bits(const RowContext& context, TokenId token) {
  return noise_bits(context.params->seed, NoiseStream::kTarget, context.position,
                    static_cast<uint32_t>(token));
}

// A few kept tokens: each on its own, skipping those that even the largest noise cannot lift.
TokenId draw_from_list(const ProcessedRow& row, const RowContext& context) {
  BestKey best;
  best.offer(noisy_score(row, row.best_token, target_bits(context, row.best_token)),
             row.best_token);
  for (const RankedToken& kept : row.kept) {
    if (kept.token == row.best_token || row.score(kept.token) + kMaxGumbel + 0.01f < best.key) {
      continue;
    }
    best.offer(noisy_score(row, kept.token, target_bits(context, kept.token)), kept.token);
  }
  return best.token;
}

double log_total(uint64_t fixed) {
  return std::log(static_cast<double>(fixed) / kFixedWeightScale);
}

Status raw_logprobs(std::span<const float> logits, const RowContext& context,
                    const ProcessedRow& row, SamplerScratch& scratch, SampledToken* out,
                    std::vector<Candidate>* alternatives) {
  std::span<const float> lane_max = row.lane_max;
  float raw_max = row.scale.max_logit;
  if (row.logits.data() != logits.data()) {
    RankedToken best;
    FORERUN_RETURN_IF_ERROR(scan_row(logits, context.position, scratch.raw_lane_max, &best));
    lane_max = scratch.raw_lane_max;
    raw_max = best.logit;
  }
  const double log_sum = log_total(scan_kernels().exp_weights(
      logits.data(), static_cast<int64_t>(logits.size()), {raw_max, 1.0f}, nullptr));
  const auto logprob_of = [&](float logit) {
    return std::max(static_cast<float>(static_cast<double>(logit - raw_max) - log_sum),
                    kLowestLogprob);
  };
  out->logprob = logprob_of(logits[static_cast<size_t>(out->token)]);
  if (alternatives == nullptr || context.params->logprobs == 0) return {};
  best_tokens(logits, lane_max, raw_max, context.params->logprobs, true, scratch.ids,
              scratch.ranked);
  for (const RankedToken& ranked : scratch.ranked) {
    alternatives->push_back({ranked.token, logprob_of(ranked.logit)});
  }
  return {};
}

// Log-probabilities of the processed distribution, best first.
void rank_by_logprob(const ProcessedRow& row, int32_t count, SamplerScratch& scratch,
                     std::vector<Candidate>* out) {
  uint64_t total = 0;
  if (row.filtered) {
    for (const RankedToken& kept : row.kept) {
      total += to_fixed_weight(exp_score(row.score(kept.token)));
    }
    const auto length = std::min(static_cast<size_t>(count), row.kept.size());
    scratch.ranked.resize(length);
    std::partial_sort_copy(row.kept.begin(), row.kept.end(), scratch.ranked.begin(),
                           scratch.ranked.end(), ranks_before);
  } else {
    total = scan_kernels().exp_weights(row.logits.data(), static_cast<int64_t>(row.logits.size()),
                                       row.scale, nullptr);
    best_tokens(row.logits, row.lane_max, row.scale.max_logit, count, true, scratch.ids,
                scratch.ranked);
  }
  const double log_sum = log_total(total);
  for (const RankedToken& ranked : scratch.ranked) {
    const auto score = static_cast<double>(row.score(ranked.token));
    out->push_back({ranked.token, static_cast<float>(score - log_sum)});
  }
}

void rank_by_shared_noise(const ProcessedRow& row, const RowContext& context, int32_t count,
                          SamplerScratch& scratch, std::vector<Candidate>* out) {
  const int32_t limit = std::max(count, kSharedNoiseCandidates);
  if (row.filtered) {
    const auto length = std::min(static_cast<size_t>(limit), row.kept.size());
    scratch.ranked.assign(row.kept.begin(), row.kept.end());
    if (length < scratch.ranked.size()) {
      std::nth_element(scratch.ranked.begin(),
                       scratch.ranked.begin() + static_cast<ptrdiff_t>(length),
                       scratch.ranked.end(), ranks_before);
      scratch.ranked.resize(length);
    }
  } else {
    best_tokens(row.logits, row.lane_max, row.scale.max_logit, limit, false, scratch.ids,
                scratch.ranked);
  }
  for (const RankedToken& ranked : scratch.ranked) {
    out->push_back(
        {ranked.token, noisy_score(row, ranked.token, target_bits(context, ranked.token))});
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
}

__extension__ using Wide = unsigned __int128;

}  // namespace

double noise_uniform53(uint64_t seed, NoiseStream stream, int32_t position, uint32_t index) {
  const uint64_t high = noise_bits(seed, stream, position, 2 * index);
  const uint64_t low = noise_bits(seed, stream, position, 2 * index + 1);
  return static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
}

TokenId draw_target_token(const ProcessedRow& row, const RowContext& context,
                          SamplerScratch& scratch) {
  const SamplingParams& params = *context.params;
  if (is_greedy(params)) return row.best_token;
  constexpr size_t kListed = 1024;
  if (row.filtered && row.kept.size() <= kListed) return draw_from_list(row, context);

  // Four blocks at a time: the kernel names the few tokens whose noise may be large enough, from
  // bits alone; logarithms are taken for those that still matter.
  constexpr int64_t kBlocks = 4;
  const auto count = static_cast<int64_t>(row.logits.size());
  const int64_t blocks = (count + kScanBlock - 1) / kScanBlock;
  const NoiseKey key{static_cast<uint32_t>(params.seed), static_cast<uint32_t>(params.seed >> 32),
                     static_cast<uint32_t>(context.position),
                     static_cast<uint32_t>(NoiseStream::kTarget)};
  scratch.survivors.resize(static_cast<size_t>(kBlocks * kScanBlock));
  const ScanKernels& kernels = scan_kernels();
  BestKey best;
  best.offer(noisy_score(row, row.best_token, target_bits(context, row.best_token)),
             row.best_token);
  for (int64_t block = 0; block < blocks; block += kBlocks) {
    const int32_t found = kernels.noise_survivors(
        row.logits.data(), count, row.lane_max.data(), row.scale, key, best.key, block,
        std::min(block + kBlocks, blocks), scratch.survivors.data());
    if (found == 0) continue;
    const std::span<Survivor> survivors(scratch.survivors.data(), static_cast<size_t>(found));
    // The most promising one first: it rules out most of the others.
    std::swap(survivors[0], *std::max_element(survivors.begin(), survivors.end(),
                                              [](const Survivor& a, const Survivor& b) {
                                                return a.bound < b.bound;
                                              }));
    for (const Survivor& survivor : survivors) {
      if (survivor.bound < best.key || !row.keeps(survivor.token)) continue;
      best.offer(noisy_score(row, survivor.token, survivor.noise_bits), survivor.token);
    }
  }
  return best.token;
}

Status sample_token(std::span<const float> logits, const RowContext& context,
                    SamplerScratch& scratch, SampledToken* out,
                    std::vector<Candidate>* alternatives) {
  ProcessedRow row;
  FORERUN_RETURN_IF_ERROR(process_logits(logits, context, scratch, &row));
  out->token = draw_target_token(row, context, scratch);
  if (context.params->logprobs < 0) return {};
  return raw_logprobs(logits, context, row, scratch, out, alternatives);
}

Status top_candidates(std::span<const float> logits, const RowContext& context, int32_t count,
                      bool shared_noise, SamplerScratch& scratch, std::vector<Candidate>* out) {
  out->clear();
  ProcessedRow row;
  FORERUN_RETURN_IF_ERROR(process_logits(logits, context, scratch, &row));
  if (count <= 0) return {};
  if (shared_noise && !is_greedy(*context.params)) {
    rank_by_shared_noise(row, context, count, scratch, out);
  } else {
    rank_by_logprob(row, count, scratch, out);
  }
  return {};
}

uint64_t dense_weights(const ProcessedRow& row, std::vector<float>& weights) {
  if (!row.filtered) {
    weights.resize(row.logits.size());
    return scan_kernels().exp_weights(row.logits.data(), static_cast<int64_t>(row.logits.size()),
                                      row.scale, weights.data());
  }
  weights.assign(row.logits.size(), 0.0f);
  uint64_t total = 0;
  for (const RankedToken& kept : row.kept) {
    const float weight = exp_score(row.score(kept.token));
    weights[static_cast<size_t>(kept.token)] = weight;
    total += to_fixed_weight(weight);
  }
  return total;
}

Status draw_candidates(std::span<const float> logits, const RowContext& context, int32_t count,
                       SamplerScratch& scratch, std::vector<Candidate>* out,
                       DraftDistribution* distribution) {
  out->clear();
  distribution->weights.clear();
  distribution->total = 0;
  ProcessedRow row;
  FORERUN_RETURN_IF_ERROR(process_logits(logits, context, scratch, &row));
  if (count <= 0) return {};
  const SamplingParams& params = *context.params;
  if (is_greedy(params)) {
    rank_by_logprob(row, count, scratch, out);
    return {};
  }
  distribution->total = dense_weights(row, distribution->weights);
  const double log_sum = log_total(distribution->total);
  for (int32_t draw = 0; draw < count; ++draw) {
    const auto number = static_cast<uint32_t>(draw);
    const uint64_t high =
        noise_bits(params.seed, NoiseStream::kDraft, context.position, 2 * number);
    const uint64_t low =
        noise_bits(params.seed, NoiseStream::kDraft, context.position, 2 * number + 1);
    auto rest =
        static_cast<uint64_t>((static_cast<Wide>(high << 32 | low) * distribution->total) >> 64);
    size_t token = 0;
    for (;; ++token) {
      const uint64_t weight = to_fixed_weight(distribution->weights[token]);
      if (rest < weight) break;
      rest -= weight;
    }
    out->push_back({static_cast<TokenId>(token),
                    static_cast<float>(static_cast<double>(row.score(static_cast<TokenId>(token))) -
                                       log_sum)});
  }
  return {};
}

}  // namespace forerun
