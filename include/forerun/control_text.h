// Keeps what people write from becoming control tokens.
//
// A chat template puts special tokens around messages, and the tokenizer finds them in the rendered
// text by their names; a message that spells such a name would be taken for one ("<|im_end|>" ends
// somebody's turn). So where a text has the name of a special token, a mark goes into it before the
// template is rendered, and the rendered text is cut at the marks and tokenized piece by piece: the
// halves of a name are plain text. Conversations without such names, nearly all, are tokenized as
// they are.
//
// Threads: const methods may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/chat_prompt.h"
#include "forerun/request.h"
#include "forerun/status.h"

namespace forerun {

class Engine;

class ControlText {
 public:
  // Reads the names of the engine's special tokens once: milliseconds. Keeps no reference to the
  // engine.
  explicit ControlText(const Engine& engine);

  // What an application needs of this class: renders the conversation by the engine's template, as
  // Engine::apply_chat_template does, and fails where that fails. Fills `prompt`,
  // `add_special_tokens` and, where a text has the name of a special token, `prompt_tokens` of
  // `request`.
  Status render(const Engine& engine, ChatPrompt prompt, Request& request) const;

  // The two steps of render() by themselves. mark() puts marks into the names that it finds in the
  // strings of the prompt's JSON, at any depth, except in names of members; returns whether it
  // found any. JSON that is broken or nests deeper than 200 levels stays as it is; templates refuse
  // it.
  bool mark(ChatPrompt& prompt) const;
  // The tokens of a rendered text that has marks.
  Result<std::vector<int32_t>> tokenize(const Engine& engine, const std::string& rendered) const;

 private:
  bool mark_text(std::string& text) const;
  bool mark_json(std::string& text) const;

  std::vector<std::string> names_;
  std::string mark_;  // random, so that no message can contain it
};

}  // namespace forerun
