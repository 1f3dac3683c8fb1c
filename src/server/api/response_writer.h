// Writes the answers of /v1/responses: a "response", or a stream of the events that build it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/api/answer_writer.h"
#include "server/api/server_facts.h"
#include "server/json.h"
#include "server/output/assistant_output.h"

namespace forerun::server {

// The fields of the call that its answer repeats.
struct ResponseEcho {
  Json fields = Json::object();
  int32_t num_logprobs = -1;  // alternatives of the text's tokens; -1: no log-probabilities
};

// `engine` and `facts` must outlive the writer.
std::unique_ptr<AnswerWriter> make_response_writer(const Engine& engine, const ServerFacts& facts,
                                                   bool stream, ResponseEcho echo,
                                                   const AssistantOutputOptions& output,
                                                   const std::string& call_id);

}  // namespace forerun::server
