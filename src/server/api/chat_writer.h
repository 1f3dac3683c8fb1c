// Writes the answers of /v1/chat/completions: "chat.completion", or a stream of its chunks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/api/answer_writer.h"
#include "server/api/generation_fields.h"
#include "server/api/server_facts.h"
#include "server/output/assistant_output.h"

namespace forerun::server {

struct ChatAnswerOptions {
  StreamFields stream;
  AssistantOutputOptions output;
  size_t num_choices = 1;
  std::string id;
  // Number of alternatives for each prompt token; unset: not asked for.
  std::optional<int32_t> prompt_logprobs;
  std::vector<int32_t> prompt_tokens;  // filled if StreamFields::wants_prompt_tokens()
};

// `engine` and `facts` must outlive the writer.
std::unique_ptr<AnswerWriter> make_chat_writer(const Engine& engine, const ServerFacts& facts,
                                               ChatAnswerOptions options);

}  // namespace forerun::server
