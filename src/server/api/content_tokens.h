// ContentTokens: which tokens of an answer are its message's text, so that log-probabilities are
// told of those alone, not of reasoning, calls and tags.
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

  // The log-probabilities of the tokens that are known to be text by now: a token may be held back
  // while it may belong to a tag. In order, each once.
  std::vector<std::vector<TokenLogprob>> take(const Event& event);

 private:
  struct Held {
    size_t size_bytes = 0;
    std::vector<TokenLogprob> logprobs;
  };
  // What has been held is decided: as much of its end as the deltas have text is text.
  void read(const std::vector<OutputDelta>& deltas,
            std::vector<std::vector<TokenLogprob>>& text_tokens);

  const Engine& engine_;
  const std::set<std::string> control_tokens_;  // which the text does not have
  AssistantOutput output_;                      // reads the same answer token by token
  std::vector<Held> held_;
};

}  // namespace forerun::server
