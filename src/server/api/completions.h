// POST /v1/completions: prompts continued as they are.
#pragma once

#include <string>
#include <variant>

#include "server/api/generation.h"
#include "server/api/server_facts.h"

namespace forerun::server {

// Reads a call, or says what is wrong with it. `engine` and `facts` must outlive its writer.
std::variant<GenerationCall, ApiError> read_completion(const Engine& engine,
                                                       const ServerFacts& facts,
                                                       const std::string& body,
                                                       const std::string& call_id);

}  // namespace forerun::server
