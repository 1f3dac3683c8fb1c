#include "sampling/validate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace forerun {
namespace {

std::string number(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
  return text;
}

Status refuse(const std::string& name, const std::string& found, const std::string& accepted) {
  return Status(StatusCode::kInvalidArgument, name + ": found " + found + ", accepted " + accepted);
}

}  // namespace

Status validate_sampling_params(const SamplingParams& params, int32_t vocab) {
  if (!(params.temperature >= 0.0f) || !std::isfinite(params.temperature)) {
    return refuse("temperature", number(params.temperature), "0 (greedy) or a positive number");
  }
  if (params.top_k < 0) {
    return refuse("top_k", std::to_string(params.top_k), "0 (all tokens) or a positive number");
  }
  if (!(params.top_p > 0.0f && params.top_p <= 1.0f)) {
    return refuse("top_p", number(params.top_p), "more than 0, at most 1");
  }
  if (!(params.min_p >= 0.0f && params.min_p <= 1.0f)) {
    return refuse("min_p", number(params.min_p), "0 to 1");
  }
  if (!(params.repetition_penalty >= kMinRepetitionPenalty &&
        params.repetition_penalty <= kMaxRepetitionPenalty)) {
    return refuse("repetition_penalty", number(params.repetition_penalty),
                  number(kMinRepetitionPenalty) + " to " + number(kMaxRepetitionPenalty));
  }
  if (!std::isfinite(params.presence_penalty)) {
    return refuse("presence_penalty", number(params.presence_penalty), "a finite number");
  }
  if (!std::isfinite(params.frequency_penalty)) {
    return refuse("frequency_penalty", number(params.frequency_penalty), "a finite number");
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocab) {
      return refuse("logit_bias", "token " + std::to_string(token),
                    "0 to " + std::to_string(vocab - 1));
    }
    if (!(bias >= -kMaxLogitBias && bias <= kMaxLogitBias)) {
      return refuse("logit_bias", number(bias) + " for token " + std::to_string(token),
                    number(-kMaxLogitBias) + " to " + number(kMaxLogitBias));
    }
  }
  std::vector<int32_t> biased;
  for (const auto& [token, bias] : params.logit_bias) biased.push_back(token);
  std::sort(biased.begin(), biased.end());
  const auto twice = std::adjacent_find(biased.begin(), biased.end());
  if (twice != biased.end()) {
    return refuse("logit_bias", "token " + std::to_string(*twice) + " twice", "every token once");
  }
  for (const auto& [name, count] :
       {std::pair("logprobs", params.logprobs), {"prompt_logprobs", params.prompt_logprobs}}) {
    if (count >= -1 && count <= vocab) continue;
    return refuse(name, std::to_string(count), "-1 (none) to " + std::to_string(vocab));
  }
  return {};
}

}  // namespace forerun
