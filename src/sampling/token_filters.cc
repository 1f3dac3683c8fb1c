#include "sampling/token_filters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace forerun {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

// A logit that at least `limit` lane maxima reach; -inf side (kLowest) where that takes all lanes.
float reach_of(std::span<const float> lane_max, float part_max, int32_t limit) {
  if (static_cast<size_t>(limit) >= lane_max.size()) return kLowest;
  // Eighths below the maximum; the last bucket takes the rest.
  constexpr size_t kBuckets = 256;
  std::array<int32_t, kBuckets> histogram{};
  const auto bucket_of = [part_max](float logit) {
    const float depth = (part_max - logit) * 8.0f;
    return depth < static_cast<float>(kBuckets - 1) ? static_cast<size_t>(depth) : kBuckets - 1;
  };
  for (float logit : lane_max) ++histogram[bucket_of(logit)];
  size_t last = 0;
  for (int32_t seen = histogram[0]; seen < limit; seen += histogram[++last]) {
  }
  if (last == kBuckets - 1) return kLowest;
  float reach = part_max;
  for (float logit : lane_max) {
    if (bucket_of(logit) <= last) reach = std::min(reach, logit);
  }
  return reach;
}

uint64_t fixed_weight(const RankedToken& token, ScoreScale scale) {
  return to_fixed_weight(exp_score((token.logit - scale.max_logit) * scale.inv_temperature));
}

// Reorders `tokens` so that its shortest prefix by rank that weighs at least `needed` comes first,
// and returns that prefix's length; 0 if all of them weigh less.
size_t shortest_prefix(std::span<RankedToken> tokens, ScoreScale scale, uint64_t needed) {
  uint64_t total = 0;
  for (const RankedToken& token : tokens) total += fixed_weight(token, scale);
  if (total < needed) return 0;
  // Invariant: the prefix ends in (begin, end], and what lies before begin weighs less by
  // `needed` than was asked for.
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

// The last of some tokens by rank; there is one.
RankedToken last_of(std::span<const RankedToken> tokens) {
  return *std::max_element(tokens.begin(), tokens.end(), ranks_before);
}

// The part's tokens of at least this logit.
void collect(const ProcessedRow& row, float reach, std::vector<int32_t>& ids,
             std::vector<RankedToken>& out) {
  ids.resize(row.logits.values.size());
  const int32_t found = scan_kernels().collect(
      row.logits.values.data(), static_cast<int64_t>(row.logits.values.size()), row.lane_max.data(),
      std::max(reach, kLowest), ids.data());
  out.clear();
  for (int32_t index = 0; index < found; ++index) {
    const TokenId token = row.logits.first_token + ids[static_cast<size_t>(index)];
    out.push_back({row.logits.at(token), token});
  }
}

uint64_t weight_of_part(const ProcessedRow& row, float* weights) {
  return scan_kernels().exp_weights(
      row.logits.values.data(), static_cast<int64_t>(row.logits.values.size()), row.scale, weights);
}

// Leaves the part's share of the shortest prefix that weighs `needed` in scratch.kept, for rows
// where that takes many tokens: sums eighths of score first, so that only those of one eighth need
// ordering.
void cut_by_buckets(uint64_t needed, ProcessedRow* row, SamplerScratch& scratch) {
  constexpr size_t kBuckets = 256;
  const ScoreScale scale = row->scale;
  const auto bucket_of = [scale](float logit) {
    const float depth = (scale.max_logit - logit) * scale.inv_temperature * 8.0f;
    return depth < static_cast<float>(kBuckets - 1) ? static_cast<size_t>(depth) : kBuckets - 1;
  };
  const std::span<const float> logits = row->logits.values;
  scratch.weights.resize(logits.size());
  weight_of_part(*row, scratch.weights.data());
  std::array<uint64_t, kBuckets> part{};
  std::array<float, kBuckets> lowest;
  lowest.fill(scale.max_logit);
  for (size_t index = 0; index < logits.size(); ++index) {
    const size_t bucket = bucket_of(logits[index]);
    part[bucket] += to_fixed_weight(scratch.weights[index]);
    lowest[bucket] = std::min(lowest[bucket], logits[index]);
  }
  std::array<uint64_t, kBuckets> sums{};
  for_each_part(row->logits, part, [&sums](const std::array<uint64_t, kBuckets>& other) {
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) sums[bucket] += other[bucket];
  });
  size_t last = 0;
  float reach = lowest[0];
  while (last + 1 < kBuckets && sums[last] < needed) {
    needed -= sums[last++];
    reach = std::min(reach, lowest[last]);
  }
  std::vector<RankedToken>& kept = scratch.kept;
  collect(*row, reach, scratch.ids, kept);
  // What lies above the last bucket is kept; of that one, what is still needed.
  scratch.ranked.clear();
  for (const RankedToken& token : kept) {
    if (bucket_of(token.logit) == last) scratch.ranked.push_back(token);
  }
  std::vector<RankedToken>& edge = of_all_parts(row->logits, scratch.ranked, scratch.merged);
  const RankedToken end = last_of(std::span(edge).first(shortest_prefix(edge, scale, needed)));
  std::erase_if(kept, [&](const RankedToken& token) { return ranks_before(end, token); });
}

uint64_t needed_weight(float top_p, uint64_t total) {
  const double needed = std::ceil(static_cast<double>(top_p) * static_cast<double>(total));
  return std::min(std::max<uint64_t>(1, static_cast<uint64_t>(needed)), total);
}

// `kept` are the part's tokens among `all`, the row's; leaves those among its first `length` by
// rank, which come first.
void keep_prefix(size_t length, std::vector<RankedToken>& all, std::vector<RankedToken>& kept) {
  all.resize(length);
  if (&all == &kept) return;
  const RankedToken end = last_of(all);
  std::erase_if(kept, [&](const RankedToken& token) { return ranks_before(end, token); });
}

// Top-k, and top-p over what it leaves.
void apply_top_k(const SamplingParams& params, ProcessedRow* row, SamplerScratch& scratch) {
  std::vector<RankedToken>& kept = scratch.kept;
  best_of_part(row->logits, row->lane_max, row->part_best.logit, params.top_k, false, scratch.ids,
               kept);
  std::vector<RankedToken>& all = of_all_parts(row->logits, kept, scratch.merged);
  keep_best(all, params.top_k, false);
  size_t length = all.size();
  if (params.top_p < 1.0f) {
    uint64_t total = 0;
    for (const RankedToken& token : all) total += fixed_weight(token, row->scale);
    length = shortest_prefix(all, row->scale, needed_weight(params.top_p, total));
  }
  keep_prefix(length, all, kept);
}

void apply_top_p(float top_p, ProcessedRow* row, SamplerScratch& scratch) {
  constexpr int32_t kMostRowsNeed = 256;
  std::vector<RankedToken>& kept = scratch.kept;
  const uint64_t needed =
      needed_weight(top_p, sum_of_parts(row->logits, weight_of_part(*row, nullptr)));
  best_of_part(row->logits, row->lane_max, row->part_best.logit, kMostRowsNeed, false, scratch.ids,
               kept);
  std::vector<RankedToken>& all = of_all_parts(row->logits, kept, scratch.merged);
  keep_best(all, kMostRowsNeed, false);
  const size_t length = shortest_prefix(all, row->scale, needed);
  if (length > 0) {
    keep_prefix(length, all, kept);
  } else {
    cut_by_buckets(needed, row, scratch);
  }
}

void apply_min_p(float min_p, bool after_others, ProcessedRow* row, SamplerScratch& scratch) {
  std::vector<RankedToken>& kept = scratch.kept;
  const auto lowest_score = static_cast<float>(std::log(static_cast<double>(min_p)));
  const ScoreScale scale = row->scale;
  if (!after_others) {
    // A little deeper than the exact limit, which the scores below decide.
    const float depth = -lowest_score / scale.inv_temperature;
    const float reach =
        scale.max_logit - depth * 1.001f - 1e-3f * (1.0f + std::abs(scale.max_logit));
    collect(*row, reach, scratch.ids, kept);
  }
  std::erase_if(
      kept, [&](const RankedToken& token) { return row->score_of(token.logit) < lowest_score; });
}

}  // namespace

void keep_best(std::vector<RankedToken>& tokens, int32_t limit, bool sorted) {
  if (static_cast<size_t>(limit) < tokens.size()) {
    std::nth_element(tokens.begin(), tokens.begin() + limit, tokens.end(), ranks_before);
    tokens.resize(static_cast<size_t>(limit));
  }
  if (sorted) std::sort(tokens.begin(), tokens.end(), ranks_before);
}

void best_of_part(const RowLogits& logits, std::span<const float> lane_max, float part_max,
                  int32_t limit, bool sorted, std::vector<int32_t>& ids,
                  std::vector<RankedToken>& out) {
  out.clear();
  if (!(part_max >= kLowest)) return;  // all masked, or no token at all
  ids.resize(logits.values.size());
  const int32_t found =
      scan_kernels().collect(logits.values.data(), static_cast<int64_t>(logits.values.size()),
                             lane_max.data(), reach_of(lane_max, part_max, limit), ids.data());
  for (int32_t index = 0; index < found; ++index) {
    const TokenId token = logits.first_token + ids[static_cast<size_t>(index)];
    out.push_back({logits.at(token), token});
  }
  keep_best(out, limit, sorted);
}

void apply_filters(const SamplingParams& params, SamplerScratch& scratch, ProcessedRow* row) {
  const bool top_k = params.top_k > 0 && params.top_k < row->logits.vocab;
  const bool top_p = params.top_p < 1.0f;
  const bool min_p = params.min_p > 0.0f;
  if (!top_k && !top_p && !min_p) return;
  if (top_k) {
    apply_top_k(params, row, scratch);
  } else if (top_p) {
    apply_top_p(params.top_p, row, scratch);
  }
  if (min_p) apply_min_p(params.min_p, top_k || top_p, row, scratch);
  row->filtered = true;
  row->kept = scratch.kept;
  if (!row->kept.empty()) row->last_kept = last_of(row->kept);
}

}  // namespace forerun
