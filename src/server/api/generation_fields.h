// The fields that all endpoints which write text share, as OpenAI's API and vLLM's extensions name
// them.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "forerun/request.h"
#include "json/field_reader.h"
#include "server/api/api_error.h"
#include "server/api/server_facts.h"
#include "server/json_fwd.h"

namespace forerun::server {

struct StreamFields {
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // vLLM's "continuous_usage_stats": usage in every chunk
  bool token_ids = false;         // vLLM's "return_token_ids": ids of prompt and answer
  bool tokens_as_ids = false;     // vLLM's "return_tokens_as_token_ids"; for log-probabilities
  // Forerun's own: adds to the text which tokens were draft tokens, and the trees of their rounds.
  bool speculation = false;

  // Whether the prompts must be tokenized before the engine gets them.
  bool wants_prompt_tokens() const { return continuous_usage || token_ids; }
};

// Reads a list of up to `max_tokens` token ids.
std::optional<std::vector<int32_t>> read_tokens(OrderedFieldReader& fields, const char* name,
                                                size_t max_tokens);

// A field of other servers that would change the text, and the values of it that are accepted.
struct FieldNotDone {
  const char* name;
  const char* accepted;
};
// Refuses those that are given with anything but false or an empty list.
void refuse_given(OrderedFieldReader& fields, std::initializer_list<FieldNotDone> names);

// Reads sampling, length, stops, speculation and guides. Errors are left in `fields`. Fields that
// the engine calls by another name are added to `names`.
void read_generation(OrderedFieldReader& fields, const ServerFacts& facts, Request& request,
                     ParamNames& names);
void read_stream(OrderedFieldReader& fields, StreamFields& stream);
// Reads vLLM's "prompt_logprobs": the number of alternatives to report for each token of the
// prompt. Not accepted if the answer is a stream.
std::optional<int32_t> read_prompt_logprobs(OrderedFieldReader& fields, const ServerFacts& facts,
                                            bool stream);
// Turns the prompts' texts into tokens.
std::optional<ApiError> tokenize_prompts(const Engine& engine, std::span<Request> prompts,
                                         const ParamNames& names);
// Refuses prompts that have more scores than an answer may hold. Turns texts whose tokens are to be
// scored into tokens.
std::optional<ApiError> limit_scores(const Engine& engine, const ServerFacts& facts,
                                     std::span<Request> prompts, const ParamNames& names);
// Returns 404 if `name` is none of the server's names of its model.
std::optional<ApiError> refuse_model(const ServerFacts& facts, const std::string& name);
// Parses the object that a call's body holds; returns 400 where it holds none, 404 where it asks
// for another model than this server's.
std::optional<ApiError> parse_call(const std::string& body, const ServerFacts& facts, Json* object);

}  // namespace forerun::server
