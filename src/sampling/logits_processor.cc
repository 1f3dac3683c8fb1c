#include "sampling/logits_processor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

namespace forerun {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

float penalized(float logit, int32_t output_count, const SamplingParams& params) {
  if (params.repetition_penalty != 1.0f) {
    logit = logit > 0.0f ? logit / params.repetition_penalty : logit * params.repetition_penalty;
  }
  logit -= params.frequency_penalty * static_cast<float>(output_count);
  if (output_count > 0) logit -= params.presence_penalty;
  return logit;
}

// Distinct tokens of the path with how often they occur as output.
void count_path(const RowContext& context, std::vector<std::pair<TokenId, int32_t>>& counts) {
  counts.clear();
  const auto length = static_cast<int32_t>(context.path.size());
  for (int32_t index = 0; index < length; ++index) {
    const bool is_prompt = context.position - length + index < context.prompt_tokens;
    counts.emplace_back(context.path[static_cast<size_t>(index)], is_prompt ? 0 : 1);
  }
  std::sort(counts.begin(), counts.end());
  size_t distinct = 0;
  for (size_t index = 0; index < counts.size(); ++index) {
    if (distinct > 0 && counts[distinct - 1].first == counts[index].first) {
      counts[distinct - 1].second += counts[index].second;
    } else {
      counts[distinct++] = counts[index];
    }
  }
  counts.resize(distinct);
}

void apply_penalties(const RowContext& context, SamplerScratch& scratch) {
  std::vector<float>& logits = scratch.logits;
  const auto in_range = [&](TokenId token) {
    return token >= 0 && static_cast<size_t>(token) < logits.size();
  };
  // The path's tokens are set aside first, since their counts are the history's and the path's
  // together and a penalty cannot be applied twice.
  count_path(context, scratch.path_counts);
  scratch.path_logits.clear();
  for (const auto& [token, count] : scratch.path_counts) {
    scratch.path_logits.push_back(in_range(token) ? logits[static_cast<size_t>(token)] : 0.0f);
  }
  if (context.history != nullptr) {
    for (const TokenCounts::Entry& entry : context.history->entries()) {
      if (!in_range(entry.token)) continue;
      float& logit = logits[static_cast<size_t>(entry.token)];
      logit = penalized(logit, entry.output_count, *context.params);
    }
  }
  for (size_t index = 0; index < scratch.path_counts.size(); ++index) {
    const TokenId token = scratch.path_counts[index].first;
    if (!in_range(token)) continue;
    int32_t count = scratch.path_counts[index].second;
    const TokenCounts::Entry* entry =
        context.history == nullptr ? nullptr : context.history->find(token);
    if (entry != nullptr) count += entry->output_count;
    logits[static_cast<size_t>(token)] =
        penalized(scratch.path_logits[index], count, *context.params);
  }
}

// A logit that at least `limit` lane maxima reach; -inf side (kLowest) where that takes all lanes.
float reach_of(std::span<const float> lane_max, float row_max, int32_t limit) {
  if (static_cast<size_t>(limit) >= lane_max.size()) return kLowest;
  // Eighths below the maximum; the last bucket takes the rest.
  constexpr size_t kBuckets = 256;
  std::array<int32_t, kBuckets> histogram{};
  const auto bucket_of = [row_max](float logit) {
    const float depth = (row_max - logit) * 8.0f;
    return depth < static_cast<float>(kBuckets - 1) ? static_cast<size_t>(depth) : kBuckets - 1;
  };
  for (float logit : lane_max) ++histogram[bucket_of(logit)];
  size_t last = 0;
  for (int32_t seen = histogram[0]; seen < limit; seen += histogram[++last]) {
  }
  if (last == kBuckets - 1) return kLowest;
  float reach = row_max;
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

// Leaves the shortest prefix that weighs `needed` in scratch.kept, for rows where that takes many
// tokens: sums eighths of score first, so that only those of one eighth need ordering.
void cut_by_buckets(uint64_t needed, ProcessedRow* row, SamplerScratch& scratch) {
  constexpr size_t kBuckets = 256;
  const ScoreScale scale = row->scale;
  const auto bucket_of = [scale](float logit) {
    const float depth = (scale.max_logit - logit) * scale.inv_temperature * 8.0f;
    return depth < static_cast<float>(kBuckets - 1) ? static_cast<size_t>(depth) : kBuckets - 1;
  };
  scratch.weights.resize(row->logits.size());
  scan_kernels().exp_weights(row->logits.data(), static_cast<int64_t>(row->logits.size()), scale,
                             scratch.weights.data());
  std::array<uint64_t, kBuckets> sums{};
  std::array<float, kBuckets> lowest;
  lowest.fill(scale.max_logit);
  for (size_t token = 0; token < row->logits.size(); ++token) {
    const float logit = row->logits[token];
    const size_t bucket = bucket_of(logit);
    sums[bucket] += to_fixed_weight(scratch.weights[token]);
    lowest[bucket] = std::min(lowest[bucket], logit);
  }
  size_t last = 0;
  float reach = lowest[0];
  while (last + 1 < kBuckets && sums[last] < needed) {
    needed -= sums[last++];
    reach = std::min(reach, lowest[last]);
  }
  scratch.ids.resize(row->logits.size());
  const int32_t found =
      scan_kernels().collect(row->logits.data(), static_cast<int64_t>(row->logits.size()),
                             row->lane_max.data(), std::max(reach, kLowest), scratch.ids.data());
  std::vector<RankedToken>& kept = scratch.kept;
  kept.clear();
  for (int32_t index = 0; index < found; ++index) {
    const TokenId token = scratch.ids[static_cast<size_t>(index)];
    kept.push_back({row->logits[static_cast<size_t>(token)], token});
  }
  const auto boundary = std::partition(kept.begin(), kept.end(), [&](const RankedToken& token) {
    return bucket_of(token.logit) < last;
  });
  const auto sure = static_cast<size_t>(boundary - kept.begin());
  kept.resize(sure + shortest_prefix(std::span(kept).subspan(sure), scale, needed));
}

void apply_top_p(float top_p, bool after_top_k, ProcessedRow* row, SamplerScratch& scratch) {
  std::vector<RankedToken>& kept = scratch.kept;
  const auto needed_of = [top_p](uint64_t total) {
    const double needed = std::ceil(static_cast<double>(top_p) * static_cast<double>(total));
    return std::min(std::max<uint64_t>(1, static_cast<uint64_t>(needed)), total);
  };
  if (after_top_k) {
    uint64_t total = 0;
    for (const RankedToken& token : kept) total += fixed_weight(token, row->scale);
    kept.resize(shortest_prefix(kept, row->scale, needed_of(total)));
    return;
  }
  const auto count = static_cast<int64_t>(row->logits.size());
  const uint64_t needed =
      needed_of(scan_kernels().exp_weights(row->logits.data(), count, row->scale, nullptr));
  // Most rows need a few hundred tokens at most.
  best_tokens(row->logits, row->lane_max, row->scale.max_logit, 256, false, scratch.ids, kept);
  const size_t length = shortest_prefix(kept, row->scale, needed);
  if (length > 0) {
    kept.resize(length);
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
    scratch.ids.resize(row->logits.size());
    const int32_t found =
        scan_kernels().collect(row->logits.data(), static_cast<int64_t>(row->logits.size()),
                               row->lane_max.data(), std::max(reach, kLowest), scratch.ids.data());
    kept.clear();
    for (int32_t index = 0; index < found; ++index) {
      const TokenId token = scratch.ids[static_cast<size_t>(index)];
      kept.push_back({row->logits[static_cast<size_t>(token)], token});
    }
  }
  std::erase_if(kept, [&](const RankedToken& token) {
    return (token.logit - scale.max_logit) * scale.inv_temperature < lowest_score;
  });
}

}  // namespace

bool needs_history(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

Status scan_row(std::span<const float> logits, int32_t position, std::vector<float>& lane_max,
                RankedToken* best) {
  const auto count = static_cast<int64_t>(logits.size());
  const int64_t blocks = (count + kScanBlock - 1) / kScanBlock;
  lane_max.resize(static_cast<size_t>(blocks * kScanLanes));
  if (!scan_kernels().lane_max(logits.data(), count, lane_max.data())) {
    return Status(StatusCode::kInternal, "the logits for position " + std::to_string(position) +
                                             " hold NaN or +inf; finite numbers and -inf are "
                                             "accepted");
  }
  const auto top = std::max_element(lane_max.begin(), lane_max.end());
  if (top == lane_max.end() || !(*top >= kLowest)) {
    return Status(StatusCode::kInternal, "every one of " + std::to_string(count) +
                                             " tokens is masked (-inf) at position " +
                                             std::to_string(position));
  }
  // max_element returns the first lane; an equal logit may come earlier in another lane of the
  // same block, so the block is searched in order.
  const int64_t block = (top - lane_max.begin()) / kScanLanes;
  int64_t token = block * kScanBlock;
  while (logits[static_cast<size_t>(token)] != *top) ++token;
  *best = {*top, static_cast<TokenId>(token)};
  return {};
}

void best_tokens(std::span<const float> logits, std::span<const float> lane_max, float row_max,
                 int32_t limit, bool sorted, std::vector<int32_t>& ids,
                 std::vector<RankedToken>& out) {
  ids.resize(logits.size());
  const int32_t found =
      scan_kernels().collect(logits.data(), static_cast<int64_t>(logits.size()), lane_max.data(),
                             reach_of(lane_max, row_max, limit), ids.data());
  out.clear();
  for (int32_t index = 0; index < found; ++index) {
    const TokenId token = ids[static_cast<size_t>(index)];
    out.push_back({logits[static_cast<size_t>(token)], token});
  }
  if (static_cast<size_t>(limit) < out.size()) {
    std::nth_element(out.begin(), out.begin() + limit, out.end(), ranks_before);
    out.resize(static_cast<size_t>(limit));
  }
  if (sorted) std::sort(out.begin(), out.end(), ranks_before);
}

Status process_logits(std::span<const float> logits, const RowContext& context,
                      SamplerScratch& scratch, ProcessedRow* row) {
  const SamplingParams& params = *context.params;
  if (!params.logit_bias.empty() || needs_history(params)) {
    scratch.logits.assign(logits.begin(), logits.end());
    for (const auto& [token, bias] : params.logit_bias) {
      if (token < 0 || static_cast<size_t>(token) >= logits.size()) continue;
      scratch.logits[static_cast<size_t>(token)] += bias;
    }
    if (needs_history(params)) apply_penalties(context, scratch);
    logits = scratch.logits;
  }
  RankedToken best;
  FORERUN_RETURN_IF_ERROR(scan_row(logits, context.position, scratch.lane_max, &best));
  *row = {};
  row->logits = logits;
  row->lane_max = scratch.lane_max;
  row->scale = {best.logit, 1.0f};
  row->best_token = best.token;
  if (is_greedy(params)) return {};
  row->scale.inv_temperature = 1.0f / params.temperature;

  const bool top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  const bool top_p = params.top_p < 1.0f;
  const bool min_p = params.min_p > 0.0f;
  if (!top_k && !top_p && !min_p) return {};
  if (top_k) {
    best_tokens(logits, row->lane_max, best.logit, params.top_k, false, scratch.ids, scratch.kept);
  }
  if (top_p) apply_top_p(params.top_p, top_k, row, scratch);
  if (min_p) apply_min_p(params.min_p, top_k || top_p, row, scratch);
  row->filtered = true;
  row->kept = scratch.kept;
  row->last_kept = *std::max_element(scratch.kept.begin(), scratch.kept.end(), ranks_before);
  return {};
}

}  // namespace forerun
