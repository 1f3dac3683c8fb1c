// Checks a request before it is queued.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/load/opened_model.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Whether the parameters are in range, with at most `max_logprobs` alternatives.
Status check_sampling(const SamplingParams& params, int32_t vocab, int32_t max_logprobs);

// The tokens of a prompt's text. Fails where they leave no room in the context for one token of
// output; a text that is too long is not read to its end.
Result<std::vector<int32_t>> prompt_tokens(const OpenedModel& target, int32_t max_context_tokens,
                                           const std::string& text, bool add_special_tokens);

// Fills the prompt's tokens where only its text is given, and lowers max_new_tokens to what the
// context has room for. Fails, naming the field, on tokens and lengths that are out of range;
// sampling and speculation are not looked at.
Status check_request(const OpenedModel& target, int32_t max_context_tokens, Request& request);

}  // namespace forerun
