#include "sampling/logits_processor.h"

#include <algorithm>
#include <limits>

#include "base/status_macros.h"
#include "sampling/token_filters.h"

namespace forerun {
namespace {

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

// On the part of scratch.logits that `part` holds.
void apply_penalties(const RowLogits& part, const RowContext& context, SamplerScratch& scratch) {
  const auto logit_of = [&](TokenId token) -> float& {
    return scratch.logits[static_cast<size_t>(token - part.first_token)];
  };
  // The path's tokens are set aside first, since their counts are the history's and the path's
  // together and a penalty cannot be applied twice.
  count_path(context, scratch.path_counts);
  scratch.path_logits.clear();
  for (const auto& [token, count] : scratch.path_counts) {
    scratch.path_logits.push_back(part.holds(token) ? logit_of(token) : 0.0f);
  }
  if (context.history != nullptr) {
    for (const TokenCounts::Entry& entry : context.history->entries()) {
      if (!part.holds(entry.token)) continue;
      float& logit = logit_of(entry.token);
      logit = penalized(logit, entry.output_count, *context.params);
    }
  }
  for (size_t index = 0; index < scratch.path_counts.size(); ++index) {
    const TokenId token = scratch.path_counts[index].first;
    if (!part.holds(token)) continue;
    int32_t count = scratch.path_counts[index].second;
    const TokenCounts::Entry* entry =
        context.history == nullptr ? nullptr : context.history->find(token);
    if (entry != nullptr) count += entry->output_count;
    logit_of(token) = penalized(scratch.path_logits[index], count, *context.params);
  }
}

// On the part of scratch.logits that `part` holds.
void mask_disallowed(const RowLogits& part, const RowContext& context, SamplerScratch& scratch) {
  TokenConstraint::State state = *context.constrained;
  for (const TokenId token : context.path) {
    if (state == nullptr) return;
    state = context.constraint->after(state, token);
  }
  if (state == nullptr) return;
  scratch.allowed.assign((static_cast<size_t>(part.vocab) + 31) / 32, 0);
  context.constraint->allow(state, scratch.allowed);
  for (size_t index = 0; index < scratch.logits.size(); ++index) {
    const size_t token = static_cast<size_t>(part.first_token) + index;
    if ((scratch.allowed[token / 32] >> (token % 32) & 1u) == 0) {
      scratch.logits[index] = -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace

bool needs_history(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

Status process_logits(const RowLogits& logits, const RowContext& context, SamplerScratch& scratch,
                      ProcessedRow* row) {
  const SamplingParams& params = *context.params;
  *row = {};
  row->adjusted = is_adjusted(context);
  RowLogits processed = logits;
  if (row->adjusted) {
    FORERUN_RETURN_IF_ERROR(logits.fetch());
    scratch.logits.assign(logits.values.begin(), logits.values.end());
    for (const auto& [token, bias] : params.logit_bias) {
      if (!logits.holds(token)) continue;
      scratch.logits[static_cast<size_t>(token - logits.first_token)] += bias;
    }
    if (needs_history(params)) apply_penalties(logits, context, scratch);
    if (context.constraint != nullptr) mask_disallowed(logits, context, scratch);
    processed.values = scratch.logits;
    processed.distant = nullptr;
  }
  FORERUN_RETURN_IF_ERROR(row->scan.start(processed, context.position, &scratch.lane_max));
  row->scale = {row->scan.best().logit, 1.0f};
  if (is_greedy(params)) return {};
  row->scale.inv_temperature = 1.0f / params.temperature;
  return apply_filters(params, scratch, row);
}

}  // namespace forerun
