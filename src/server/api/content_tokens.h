// ContentTokens finds the tokens of an answer that form its message's text. Log-probabilities are
// reported only for these, not for reasoning, calls and tags.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "server/output/assistant_output.h"

namespace forerun::server {

class ContentTokens {
 public:
  ContentTokens(const Engine& engine, const AssistantOutputOptions& output);

  // Returns the log-probabilities of the tokens that are now known to be text, in order, each once.
  // A token is held back while it may still belong to a tag.
  std::vector<std::vector<TokenLogprob>> take(const Event& event);

 private:
  struct Held {
    size_t size_bytes = 0;
    std::vector<TokenLogprob> logprobs;
  };
  // Decides about the held tokens: the last ones that cover the deltas' text are text.
  void read(const std::vector<OutputDelta>& deltas,
            std::vector<std::vector<TokenLogprob>>& text_tokens);

  const Engine& engine_;
  const std::set<std::string> control_tokens_;  // names of tokens that the text leaves out
  AssistantOutput output_;                      // parses the same answer token by token
  std::vector<Held> held_;
};

}  // namespace forerun::server
