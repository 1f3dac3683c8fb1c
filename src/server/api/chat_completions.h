// POST /v1/chat/completions.
#pragma once

#include <string>
#include <variant>

#include "server/api/chat_format.h"
#include "server/api/generation.h"
#include "server/api/server_facts.h"

namespace forerun::server {

// Reads a call, or returns the error in it. References must outlive the call's writer.
std::variant<GenerationCall, ApiError> read_chat_completion(const Engine& engine,
                                                            const ServerFacts& facts,
                                                            const ChatFormat& format,
                                                            const std::string& body,
                                                            const std::string& call_id);

}  // namespace forerun::server
