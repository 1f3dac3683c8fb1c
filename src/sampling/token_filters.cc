#include "sampling/token_filters.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/status_macros.h"

namespace forerun {
namespace {

// Number of tokens that top-p examines before it sums the whole row by score: most rows need fewer.
constexpr int32_t kTopPTokens = 256;

uint64_t fixed_weight(const RankedToken& token, ScoreScale scale) {
  return to_fixed_weight(exp_score((token.logit - scale.max_logit) * scale.inv_temperature));
}

// Reorders `tokens` so that its shortest prefix by rank with a weight of at least `needed` comes
// first, and returns that prefix's length; 0 if all of them weigh less.
size_t shortest_prefix(std::span<RankedToken> tokens, ScoreScale scale, uint64_t needed) {
  uint64_t total = 0;
  for (const RankedToken& token : tokens) total += fixed_weight(token, scale);
  if (total < needed) return 0;
  // Invariant: the prefix ends in (begin, end], and the tokens before begin weigh `needed` less
  // than the requested weight.
  size_t begin = 0;
  size_t end = tokens.size();
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(tokens.begin() + static_cast<ptrdiff_t>(begin),
                     tokens.begin() + static_cast<ptrdiff_t>(middle),
                     tokens.begin() + static_cast<ptrdiff_t>(end), ranks_before);
    uint64_t half = 0;
    for (size_t index = begin; index < middle; ++index) half += fixed_weight(tokens[index], scale);
    if (half >= needed) {
      end = middle;
    } else {
      needed -= half;
      begin = middle;
    }
  }
  return end;
}

// Returns the last of some tokens by rank; there must be at least one.
RankedToken last_of(std::span<const RankedToken> tokens) {
  return *std::max_element(tokens.begin(), tokens.end(), ranks_before);
}

// Stores the part's share of the shortest prefix that weighs `needed` in scratch.kept, for rows
// where that takes many tokens: sums eighths of score first, so that only those of one eighth need
// ordering.
Status cut_by_buckets(uint64_t needed, ProcessedRow* row, SamplerScratch& scratch) {
  FORERUN_RETURN_IF_ERROR(row->scan.read());
  constexpr size_t kBuckets = 256;
  const ScoreScale scale = row->scale;
  const auto bucket_of = [scale](float logit) {
    const float depth = (scale.max_logit - logit) * scale.inv_temperature * 8.0f;
    return depth < static_cast<float>(kBuckets - 1) ? static_cast<size_t>(depth) : kBuckets - 1;
  };
  const std::span<const float> logits = row->scan.logits().values;
  scratch.weights.resize(logits.size());
  scan_kernels().exp_weights(logits.data(), static_cast<int64_t>(logits.size()), scale,
                             scratch.weights.data());
  std::array<uint64_t, kBuckets> part{};
  std::array<float, kBuckets> lowest;
  lowest.fill(scale.max_logit);
  for (size_t index = 0; index < logits.size(); ++index) {
    const size_t bucket = bucket_of(logits[index]);
    part[bucket] += to_fixed_weight(scratch.weights[index]);
    lowest[bucket] = std::min(lowest[bucket], logits[index]);
  }
  std::array<uint64_t, kBuckets> sums{};
  for_each_part(row->scan.logits(), part, [&sums](const std::array<uint64_t, kBuckets>& other) {
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) sums[bucket] += other[bucket];
  });
  size_t last = 0;
  float reach = lowest[0];
  while (last + 1 < kBuckets && sums[last] < needed) {
    needed -= sums[last++];
    reach = std::min(reach, lowest[last]);
  }
  std::vector<RankedToken>& kept = scratch.kept;
  FORERUN_RETURN_IF_ERROR(row->scan.at_least(reach, scratch.ids, kept));
  // Keeps all tokens above the last bucket, and as many tokens of that bucket as are still needed.
  scratch.ranked.clear();
  for (const RankedToken& token : kept) {
    if (bucket_of(token.logit) == last) scratch.ranked.push_back(token);
  }
  std::vector<RankedToken>& edge = of_all_parts(row->scan.logits(), scratch.ranked, scratch.merged);
  const RankedToken end = last_of(std::span(edge).first(shortest_prefix(edge, scale, needed)));
  std::erase_if(kept, [&](const RankedToken& token) { return ranks_before(end, token); });
  return {};
}

uint64_t needed_weight(float top_p, uint64_t total) {
  const double needed = std::ceil(static_cast<double>(top_p) * static_cast<double>(total));
  return std::min(std::max<uint64_t>(1, static_cast<uint64_t>(needed)), total);
}

// `kept` are the part's tokens among `all`, the row's; keeps those among its first `length` by
// rank, which come first.
void keep_prefix(size_t length, std::vector<RankedToken>& all, std::vector<RankedToken>& kept) {
  all.resize(length);
  if (&all == &kept) return;
  const RankedToken end = last_of(all);
  std::erase_if(kept, [&](const RankedToken& token) { return ranks_before(end, token); });
}

// Applies top-k, and top-p to the remaining tokens.
Status apply_top_k(const SamplingParams& params, ProcessedRow* row, SamplerScratch& scratch) {
  std::vector<RankedToken>& kept = scratch.kept;
  FORERUN_RETURN_IF_ERROR(row->scan.best_tokens(params.top_k, scratch.ids, kept));
  std::vector<RankedToken>& all = of_all_parts(row->scan.logits(), kept, scratch.merged);
  keep_best(all, params.top_k, false);
  size_t length = all.size();
  if (params.top_p < 1.0f) {
    uint64_t total = 0;
    for (const RankedToken& token : all) total += fixed_weight(token, row->scale);
    length = shortest_prefix(all, row->scale, needed_weight(params.top_p, total));
  }
  keep_prefix(length, all, kept);
  return {};
}

Status apply_top_p(float top_p, ProcessedRow* row, SamplerScratch& scratch) {
  std::vector<RankedToken>& kept = scratch.kept;
  uint64_t part = 0;
  FORERUN_RETURN_IF_ERROR(row->scan.weight_sum(row->scale, &part));
  const uint64_t needed = needed_weight(top_p, sum_of_parts(row->scan.logits(), part));
  FORERUN_RETURN_IF_ERROR(row->scan.best_tokens(kTopPTokens, scratch.ids, kept));
  std::vector<RankedToken>& all = of_all_parts(row->scan.logits(), kept, scratch.merged);
  keep_best(all, kTopPTokens, false);
  const size_t length = shortest_prefix(all, row->scale, needed);
  if (length == 0) return cut_by_buckets(needed, row, scratch);
  keep_prefix(length, all, kept);
  return {};
}

Status apply_min_p(float min_p, bool after_others, ProcessedRow* row, SamplerScratch& scratch) {
  std::vector<RankedToken>& kept = scratch.kept;
  const auto lowest_score = static_cast<float>(std::log(static_cast<double>(min_p)));
  const ScoreScale scale = row->scale;
  if (!after_others) {
    // A little deeper than the exact limit, which the scores below decide.
    const float depth = -lowest_score / scale.inv_temperature;
    const float reach =
        scale.max_logit - depth * 1.001f - 1e-3f * (1.0f + std::abs(scale.max_logit));
    FORERUN_RETURN_IF_ERROR(row->scan.at_least(reach, scratch.ids, kept));
  }
  std::erase_if(
      kept, [&](const RankedToken& token) { return row->score_of(token.logit) < lowest_score; });
  return {};
}

bool filters_top_k(const SamplingParams& params, int32_t vocab) {
  return params.top_k > 0 && params.top_k < vocab;
}

}  // namespace

bool filters(const SamplingParams& params, int32_t vocab) {
  return filters_top_k(params, vocab) || params.top_p < 1.0f || params.min_p > 0.0f;
}

void ask_for_filters(const SamplingParams& params, int32_t vocab, RowQuery* query) {
  if (filters_top_k(params, vocab)) {
    query->top = params.top_k;
  } else if (params.top_p < 1.0f) {
    query->kinds = RowQuery::kWeights;
    query->top = kTopPTokens;
  } else if (params.min_p > 0.0f) {
    query->top = RowQuery::kMaxTop;
  }
}

Status apply_filters(const SamplingParams& params, SamplerScratch& scratch, ProcessedRow* row) {
  const int32_t vocab = row->scan.logits().vocab;
  if (!filters(params, vocab)) return {};
  const bool top_k = filters_top_k(params, vocab);
  const bool top_p = params.top_p < 1.0f;
  if (top_k) {
    FORERUN_RETURN_IF_ERROR(apply_top_k(params, row, scratch));
  } else if (top_p) {
    FORERUN_RETURN_IF_ERROR(apply_top_p(params.top_p, row, scratch));
  }
  if (params.min_p > 0.0f) {
    FORERUN_RETURN_IF_ERROR(apply_min_p(params.min_p, top_k || top_p, row, scratch));
  }
  row->filtered = true;
  row->kept = scratch.kept;
  if (!row->kept.empty()) row->last_kept = last_of(row->kept);
  return {};
}

}  // namespace forerun
