// POST /v1/responses, without what would have to be stored: conversations are sent whole.
#pragma once

#include <string>
#include <variant>

#include "server/api/chat_format.h"
#include "server/api/generation.h"
#include "server/api/server_facts.h"

namespace forerun::server {

// Reads a call, or says what is wrong with it. References must outlive its writer.
std::variant<GenerationCall, ApiError> read_response(const Engine& engine, const ServerFacts& facts,
                                                     const ChatFormat& format,
                                                     const std::string& body,
                                                     const std::string& call_id);

}  // namespace forerun::server
