#include "engine/check_request.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "sampling/validate.h"

namespace forerun {
namespace {

Status check_prompt(const OpenedModel& target, int32_t max_context_tokens, Request& request) {
  if (request.prompt_tokens.empty()) {
    FORERUN_ASSIGN_OR_RETURN(
        request.prompt_tokens,
        target.tokenizer.encode(request.prompt,
                                {.add_special_tokens = request.add_special_tokens}));
  }
  if (request.prompt_tokens.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "prompt: it is empty, and the tokenizer adds nothing to it; at least one token "
                  "is needed");
  }
  const int32_t vocab = target.live_vocab();
  for (const int32_t token : request.prompt_tokens) {
    if (token < 0 || token >= vocab) {
      return Status(StatusCode::kInvalidArgument, "prompt: found token " + std::to_string(token) +
                                                      ", accepted are 0 to " +
                                                      std::to_string(vocab - 1));
    }
  }
  const auto prompt_size = static_cast<int64_t>(request.prompt_tokens.size());
  if (prompt_size >= max_context_tokens) {
    return Status(StatusCode::kInvalidArgument,
                  "prompt: found " + std::to_string(prompt_size) + " tokens, the context holds " +
                      std::to_string(max_context_tokens) + " with at least one to write");
  }
  return Status();
}

}  // namespace

Status check_request(const OpenedModel& target, int32_t max_context_tokens, Request& request) {
  FORERUN_RETURN_IF_ERROR(validate_sampling_params(request.sampling, target.live_vocab()));
  if (request.max_new_tokens < 1) {
    return Status(StatusCode::kInvalidArgument, "max_tokens: found " +
                                                    std::to_string(request.max_new_tokens) +
                                                    ", accepted are 1 and more");
  }
  FORERUN_RETURN_IF_ERROR(check_prompt(target, max_context_tokens, request));
  const int64_t room = max_context_tokens - static_cast<int64_t>(request.prompt_tokens.size());
  request.max_new_tokens = static_cast<int32_t>(std::min<int64_t>(request.max_new_tokens, room));
  return Status();
}

}  // namespace forerun
