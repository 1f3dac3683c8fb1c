// The answers of /v1/chat/completions: "chat.completion", or a stream of its chunks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/api/answer_writer.h"
#include "server/api/generation_fields.h"
#include "server/api/server_facts.h"
#include "server/output/assistant_output.h"

namespace forerun::server {

// `engine` and `facts` must outlive it. `prompt_logprobs`: alternatives of the prompt's tokens that
// the answer has.
std::unique_ptr<AnswerWriter> make_chat_writer(const Engine& engine, const ServerFacts& facts,
                                               const StreamFields& stream,
                                               const AssistantOutputOptions& output,
                                               size_t num_choices, const std::string& id,
                                               std::optional<int32_t> prompt_logprobs);

}  // namespace forerun::server
