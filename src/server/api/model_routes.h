// Endpoints that answer at once: models, tokens, and the ones that llama-server's clients use.
#pragma once

#include <string>
#include <variant>

#include "server/api/api_error.h"
#include "server/api/chat_format.h"
#include "server/api/server_facts.h"
#include "server/json.h"

namespace forerun::server {

using JsonOrError = std::variant<Json, ApiError>;
HttpResponse json_response(const Json& json);
HttpResponse response_of(const JsonOrError& answer);

// GET /v1/models and /v1/models/NAME
Json models_json(const ServerFacts& facts);
JsonOrError model_json(const ServerFacts& facts, const std::string& name);
// GET /props and /slots, in the form of llama-server.
Json props_json(const Engine& engine, const ServerFacts& facts);
Json slots_json(const Engine& engine, const ServerFacts& facts);
// POST /tokenize: {"prompt" or "content" or "messages", "add_special_tokens", "with_pieces"}
JsonOrError tokenize_json(const Engine& engine, const ServerFacts& facts, const ChatFormat& format,
                          const std::string& body);
// POST /detokenize: {"tokens"}
JsonOrError detokenize_json(const Engine& engine, const ServerFacts& facts,
                            const std::string& body);

}  // namespace forerun::server
