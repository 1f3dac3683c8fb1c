// Tokens, their probabilities and their rounds of speculation as answers show them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/engine.h"
#include "server/json_fwd.h"

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
// The same of a prompt that is echoed: of `first_token`, before which nothing stands, nulls; of the
// others as many alternatives as there are, at most `count`. Tokens named in `without_text` take no
// place in the text.
struct EchoedPrompt {
  int32_t first_token = 0;
  int32_t count = 0;      // -1: the prompt is echoed without log-probabilities
  std::string_view text;  // as it is echoed
  // Names of special tokens: those that were put before the text have no place in it.
  const std::set<std::string>* without_text = nullptr;
};
void append_prompt_logprobs(const Engine& engine, const Event& event, const EchoedPrompt& prompt,
                            Json& logprobs);

// vLLM's "prompt_logprobs": null for the first token, then {"<id>": {"logprob", "rank",
// "decoded_token"}} of each one and its `count` likeliest alternatives. The rank is null where the
// token is none of those.
Json prompt_logprobs_json(const Engine& engine, const Event& event, int32_t count);

// {"tokens": [{"id", "text", "drafted"}], "rounds": [{"nodes": [...], "bonus"}]}
Json speculation_json(const Engine& engine, const Event& event);

}  // namespace forerun::server
