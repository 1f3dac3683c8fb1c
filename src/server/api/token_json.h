// JSON of tokens, their probabilities and their rounds of speculation in answers.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/engine.h"
#include "server/json_fwd.h"

namespace forerun::server {

// Returns the text of a token; bytes that are not whole characters become U+FFFD.
std::string token_text(const Engine& engine, int32_t token);

// Returns vLLM's "stop_reason": the request's own stop string or stop token that ended the output,
// or null.
Json stop_reason_json(const Event& event);

// Returns {"token", "logprob", "bytes", "top_logprobs"} of a token and its alternatives. `as_ids`:
// tokens are named "token_id:N".
Json chat_logprob_json(const Engine& engine, const std::vector<TokenLogprob>& token, bool as_ids);
// Returns a list of these objects for chat answers, one for each token of the event.
Json chat_logprobs(const Engine& engine, const Event& event, bool as_ids);

// Counts the whole characters of a text; its tokens may cut characters.
class TextOffset {
 public:
  explicit TextOffset(int64_t characters = 0) : characters_(characters) {}
  void add(std::string_view bytes);
  int64_t characters() const { return characters_; }

 private:
  int64_t characters_;
  std::string partial_;  // the beginning of the next character
};

// The names of tokens in a choice of /v1/completions: their texts, their bytes if they are not
// whole characters ("bytes:\\xe2\\x80", as in OpenAI's API), or "token_id:N".
struct TokenSpelling {
  bool as_ids = false;
  // Names of special tokens that the text leaves out.
  const std::set<std::string>* without_text = nullptr;
};

// Makes an empty object for /v1/completions, and appends to it: {"tokens", "token_logprobs",
// "top_logprobs", "text_offset"}. `offset` is the position of the first token in the choice's text;
// it moves past the last token.
Json no_completion_logprobs();
void append_completion_logprobs(const Engine& engine, const Event& event,
                                const TokenSpelling& spelling, Json& logprobs, TextOffset& offset);
// Appends the log-probabilities of an echoed prompt: nulls for `first_token`, which is not
// predicted; for the others all alternatives, at most `count`. Tokens named in `without_text` take
// no place in the text unless it spells them.
struct EchoedPrompt {
  int32_t first_token = 0;
  int32_t count = 0;      // -1: the prompt is echoed without log-probabilities
  std::string_view text;  // the echoed text
};
void append_prompt_logprobs(const Engine& engine, const Event& event, const EchoedPrompt& prompt,
                            const TokenSpelling& spelling, Json& logprobs);

// Returns vLLM's "prompt_logprobs": null for the first token, then {"<id>": {"logprob", "rank",
// "decoded_token"}} for each token and its `count` likeliest alternatives. The rank is null if the
// token is not one of those.
Json prompt_logprobs_json(const Engine& engine, const Event& event, int32_t count);

// Returns {"tokens": [{"id", "text", "drafted"}], "rounds": [{"nodes": [...], "bonus"}]}.
Json speculation_json(const Engine& engine, const Event& event);

}  // namespace forerun::server
