#include "server/api/usage.h"

#include <algorithm>

#include "server/json.h"

namespace forerun::server {

void Usage::add(const Event& last_of_sample) {
  const RequestStats& stats = last_of_sample.stats;
  if (last_of_sample.sample_idx == 0) {
    prompt_tokens_ += stats.prompt_tokens;
    cached_tokens_ += std::min(stats.reused_tokens, stats.prompt_tokens);
  }
  output_tokens_ += stats.output_tokens;
  target_steps_ += stats.target_steps;
  draft_steps_ += stats.draft_steps;
  target_busy_s_ += static_cast<double>(stats.target_steps) * stats.target_step_s;
  draft_busy_s_ += static_cast<double>(stats.draft_steps) * stats.draft_step_s;
  drafted_tokens_ += stats.drafted_tokens;
  accepted_tokens_ += stats.accepted_tokens;
  decoded_tokens_ += std::max(0, stats.output_tokens - stats.resumed_tokens - 1);
  first_token_s_ = std::max(first_token_s_, stats.time_to_first_token_s);
  decode_s_ = std::max(decode_s_, stats.decode_s);
  strategy_ = stats.strategy;
}

Json Usage::speculation() const {
  const auto per = [](double part, int64_t whole) {
    return whole > 0 ? part / static_cast<double>(whole) : 0.0;
  };
  return {{"strategy", strategy_},
          {"target_steps", target_steps_},
          {"draft_steps", draft_steps_},
          {"target_step_s", per(target_busy_s_, target_steps_)},
          {"draft_step_s", per(draft_busy_s_, draft_steps_)},
          {"drafted_tokens", drafted_tokens_},
          {"accepted_tokens", accepted_tokens_},
          {"acceptance", per(static_cast<double>(accepted_tokens_), drafted_tokens_)},
          {"tokens_per_step", per(static_cast<double>(decoded_tokens_), target_steps_)},
          {"time_to_first_token_s", first_token_s_},
          {"decode_s", decode_s_}};
}

Json Usage::so_far(size_t prompt_tokens, int64_t output_tokens) {
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", output_tokens},
          {"total_tokens", static_cast<int64_t>(prompt_tokens) + output_tokens}};
}

Json Usage::json() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", output_tokens_},
          {"total_tokens", prompt_tokens_ + output_tokens_},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}},
          {"speculation", speculation()}};
}

}  // namespace forerun::server
