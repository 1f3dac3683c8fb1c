#include "engine/submit/check_request.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "sampling/validate.h"

namespace forerun {
namespace {

Status check_tokens(const char* field, const std::vector<int32_t>& tokens, int32_t vocab) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocab) continue;
    return Status(StatusCode::kInvalidArgument, std::string(field) + ": found token " +
                                                    std::to_string(token) + "; accepted: 0 to " +
                                                    std::to_string(vocab - 1));
  }
  return Status();
}

// Returns the error for a prompt that is too long. The server recognizes it by its wording
// (api_error.cc).
Status too_long(const std::string& found, int32_t max_context_tokens) {
  return Status(StatusCode::kInvalidArgument,
                "prompt: found " + found + " tokens; accepted: at most " +
                    std::to_string(max_context_tokens - 1) + " for a context of " +
                    std::to_string(max_context_tokens) + ", which must hold one more");
}

Status check_prompt(const OpenedModel& target, int32_t max_context_tokens, Request& request) {
  if (request.prompt_tokens.empty()) {
    FORERUN_ASSIGN_OR_RETURN(
        request.prompt_tokens,
        prompt_tokens(target, max_context_tokens, request.prompt, request.add_special_tokens));
  }
  if (request.prompt_tokens.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "prompt: found no token, since the text is empty and the tokenizer adds none; "
                  "accepted: at least one");
  }
  FORERUN_RETURN_IF_ERROR(check_tokens("prompt", request.prompt_tokens, target.live_vocab()));
  const auto prompt_size = static_cast<int64_t>(request.prompt_tokens.size());
  if (prompt_size >= max_context_tokens) {
    return too_long(std::to_string(prompt_size), max_context_tokens);
  }
  return Status();
}

// Limits stop strings, since every byte of output is compared with every stop string.
Status check_stops(const std::vector<std::string>& stops) {
  constexpr size_t kMaxStops = 64;
  constexpr size_t kMaxStopBytes = 4096;
  if (stops.size() > kMaxStops) {
    return Status(StatusCode::kInvalidArgument, "stop: found " + std::to_string(stops.size()) +
                                                    " texts; accepted: up to " +
                                                    std::to_string(kMaxStops));
  }
  for (size_t idx = 0; idx < stops.size(); ++idx) {
    if (stops[idx].size() <= kMaxStopBytes) continue;
    return Status(StatusCode::kInvalidArgument,
                  "stop[" + std::to_string(idx) + "]: found " + std::to_string(stops[idx].size()) +
                      " bytes; accepted: up to " + std::to_string(kMaxStopBytes));
  }
  return Status();
}

// Called with max_new_tokens limited to the room in the context.
Status check_samples(const OpenedModel& target, const Request& request) {
  constexpr int32_t kMaxSamples = 128;
  const int32_t max_samples = request.resume_tokens.empty() ? kMaxSamples : 1;
  if (request.num_samples < 1 || request.num_samples > max_samples) {
    return Status(
        StatusCode::kInvalidArgument,
        "num_samples: found " + std::to_string(request.num_samples) + "; accepted" +
            (max_samples == 1 ? " with resume_tokens: 1, since a sample is resumed by itself, "
                                "with the seed that sample_seed() gives it"
                              : ": 1 to " + std::to_string(max_samples)));
  }
  FORERUN_RETURN_IF_ERROR(
      check_tokens("resume_tokens", request.resume_tokens, target.live_vocab()));
  if (request.resume_tokens.size() <= static_cast<size_t>(request.max_new_tokens)) return Status();
  return Status(StatusCode::kInvalidArgument,
                "resume_tokens: found " + std::to_string(request.resume_tokens.size()) +
                    "; accepted: up to " + std::to_string(request.max_new_tokens) +
                    ", the longest output that max_new_tokens and the context leave room for");
}

}  // namespace

Status check_sampling(const SamplingParams& params, int32_t vocab, int32_t max_logprobs) {
  FORERUN_RETURN_IF_ERROR(validate_sampling_params(params, vocab));
  for (const auto& [name, count] :
       {std::pair("logprobs", params.logprobs), {"prompt_logprobs", params.prompt_logprobs}}) {
    if (count <= max_logprobs) continue;
    return Status(StatusCode::kInvalidArgument,
                  std::string(name) + ": found " + std::to_string(count) +
                      "; accepted: -1 (none) to " + std::to_string(max_logprobs) +
                      " (EngineOptions::max_logprobs)");
  }
  return Status();
}

Result<std::vector<int32_t>> prompt_tokens(const OpenedModel& target, int32_t max_context_tokens,
                                           const std::string& text, bool add_special_tokens) {
  const int32_t max_tokens = max_context_tokens - 1;
  FORERUN_ASSIGN_OR_RETURN(
      std::optional<std::vector<int32_t>> tokens,
      target.tokenizer().encode_within(text, static_cast<size_t>(max_tokens),
                                       {.add_special_tokens = add_special_tokens}));
  if (!tokens) return too_long("more than " + std::to_string(max_tokens), max_context_tokens);
  return std::move(*tokens);
}

Status check_request(const OpenedModel& target, int32_t max_context_tokens, Request& request) {
  if (request.max_new_tokens < 0) {
    return Status(
        StatusCode::kInvalidArgument,
        "max_tokens: found " + std::to_string(request.max_new_tokens) + "; accepted: at least 0");
  }
  if (request.min_new_tokens < 0 || request.min_new_tokens > request.max_new_tokens) {
    return Status(StatusCode::kInvalidArgument,
                  "min_tokens: found " + std::to_string(request.min_new_tokens) +
                      "; accepted: 0 to max_tokens, " + std::to_string(request.max_new_tokens));
  }
  if (request.min_new_tokens > 0 && request.output_format.kind != OutputFormat::Kind::kAny) {
    return Status(StatusCode::kInvalidArgument,
                  "min_tokens: found " + std::to_string(request.min_new_tokens) +
                      " with output_format, whose outputs end once they are complete; accepted: 0");
  }
  if (request.ignore_eos && request.output_format.kind != OutputFormat::Kind::kAny) {
    return Status(
        StatusCode::kInvalidArgument,
        "ignore_eos: found true with output_format, whose outputs end once they are complete; "
        "accepted: false");
  }
  FORERUN_RETURN_IF_ERROR(check_stops(request.stop));
  FORERUN_RETURN_IF_ERROR(check_prompt(target, max_context_tokens, request));
  const int64_t room = max_context_tokens - static_cast<int64_t>(request.prompt_tokens.size());
  request.max_new_tokens = static_cast<int32_t>(std::min<int64_t>(request.max_new_tokens, room));
  return check_samples(target, request);
}

}  // namespace forerun
