// The fields that all text-generating endpoints share, with the names of OpenAI's API and vLLM's
// extensions.
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
  // Forerun's own field: adds to the text which tokens were draft tokens, and the trees of their
  // rounds.
  bool speculation = false;

  // Returns whether the prompts must be tokenized before the engine gets them.
  bool wants_prompt_tokens() const { return continuous_usage || token_ids; }
};

// Reads a list of up to `max_tokens` token ids.
std::optional<std::vector<int32_t>> read_tokens(OrderedFieldReader& fields, const char* name,
                                                size_t max_tokens);

// An unsupported field of other servers that would change the text, and its accepted values.
struct FieldNotDone {
  const char* name;
  const char* accepted;
};
// Refuses fields that are given with a value other than false or an empty list.
void refuse_given(OrderedFieldReader& fields, std::initializer_list<FieldNotDone> names);

// Reads sampling, length, stops, speculation and guides. Records errors in `fields`. Adds fields
// that have another name in the engine to `names`.
void read_generation(OrderedFieldReader& fields, const ServerFacts& facts, Request& request,
                     ParamNames& names);
void read_stream(OrderedFieldReader& fields, StreamFields& stream);
// Reads vLLM's "prompt_logprobs": the number of alternatives to report for each token of the
// prompt. Refused if the answer is a stream.
std::optional<int32_t> read_prompt_logprobs(OrderedFieldReader& fields, const ServerFacts& facts,
                                            bool stream);
// Turns the prompts' texts into tokens.
std::optional<ApiError> tokenize_prompts(const Engine& engine, std::span<Request> prompts,
                                         const ParamNames& names);
// Refuses prompts with more scores than an answer may hold. Turns texts with scored tokens into
// tokens.
std::optional<ApiError> limit_scores(const Engine& engine, const ServerFacts& facts,
                                     std::span<Request> prompts, const ParamNames& names);
// Returns 404 if `name` is not one of the server's names of its model.
std::optional<ApiError> refuse_model(const ServerFacts& facts, const std::string& name);
// Parses the JSON object in a call's body; returns 400 if there is none, 404 if it asks for a model
// other than this server's.
std::optional<ApiError> parse_call(const std::string& body, const ServerFacts& facts, Json* object);

}  // namespace forerun::server
