// Checks a request before it is queued.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/load/opened_model.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Fails if a parameter is out of range, or asks for more than `max_logprobs` alternatives.
Status check_sampling(const SamplingParams& params, int32_t vocab, int32_t max_logprobs);

// Returns the tokens of a prompt's text. Fails if they leave no room in the context for one token
// of output; a text that is too long is not read to its end.
Result<std::vector<int32_t>> prompt_tokens(const OpenedModel& target, int32_t max_context_tokens,
                                           const std::string& text, bool add_special_tokens);

// Fills in the prompt's tokens if only its text is given, and lowers max_new_tokens to the room in
// the context. Fails, naming the field, if tokens or lengths are out of range; does not check
// sampling and speculation.
Status check_request(const OpenedModel& target, int32_t max_context_tokens, Request& request);

}  // namespace forerun
