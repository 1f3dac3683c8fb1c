// Tokens, their probabilities and their rounds of speculation as answers show them.
#pragma once

#include "forerun/engine.h"
#include "server/api/json_fwd.h"

namespace forerun::server {

// The text of a token; bytes that are no whole character become U+FFFD.
std::string token_text(const Engine& engine, int32_t token);

// Chat: a list of {"token", "logprob", "bytes", "top_logprobs"}, one for each token of the event.
Json chat_logprobs(const Engine& engine, const Event& event);

// /v1/completions: appends to {"tokens", "token_logprobs", "top_logprobs", "text_offset"}.
// `offset`: of the first token in the choice's text, in characters; moved behind the last one.
Json no_completion_logprobs();
void append_completion_logprobs(const Engine& engine, const Event& event, Json& logprobs,
                                int64_t& offset);

// {"tokens": [{"id", "text", "drafted"}], "rounds": [{"nodes": [...], "bonus"}]}
Json speculation_json(const Engine& engine, const Event& event);

}  // namespace forerun::server
