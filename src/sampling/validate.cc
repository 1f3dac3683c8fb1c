#include "sampling/validate.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "forerun/sampling_fields.h"

namespace forerun {
namespace {

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

Status refuse(const std::string& name, const std::string& found, const std::string& accepted) {
  return Status(StatusCode::kInvalidArgument,
                name + ": found " + found + "; accepted: " + accepted);
}

}  // namespace

std::string range_text(double min, double max) {
  return shown(min) + (max == INT32_MAX ? " or more" : " to " + shown(max));
}

Status validate_sampling_params(const SamplingParams& params, int32_t vocab) {
  Status status;
  for_each_sampling_field([&](const auto& field) {
    const auto value = params.*field.param;
    if (status.ok() && !sampling_in_range(field, value)) {
      status =
          refuse(field.name, shown(static_cast<double>(value)), range_text(field.min, field.max));
    }
  });
  FORERUN_RETURN_IF_ERROR(status);
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocab) {
      return refuse("logit_bias", "token " + std::to_string(token),
                    "0 to " + std::to_string(vocab - 1));
    }
    if (!(bias >= -kMaxLogitBias && bias <= kMaxLogitBias)) {
      return refuse("logit_bias", shown(bias) + " for token " + std::to_string(token),
                    shown(-kMaxLogitBias) + " to " + shown(kMaxLogitBias));
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
