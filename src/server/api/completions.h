// POST /v1/completions: continues prompts without a chat template.
#pragma once

#include <string>
#include <variant>

#include "server/api/generation.h"
#include "server/api/server_facts.h"

namespace forerun::server {

// Reads a call, or returns the error in it. `engine` and `facts` must outlive the call's writer.
std::variant<GenerationCall, ApiError> read_completion(const Engine& engine,
                                                       const ServerFacts& facts,
                                                       const std::string& body,
                                                       const std::string& call_id);

}  // namespace forerun::server
