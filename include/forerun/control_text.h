// Keeps text of users from becoming control tokens.
//
// A chat template puts special tokens around messages, and the tokenizer finds them in the rendered
// text by their names. A message that spells such a name would therefore become that token
// ("<|im_end|>" ends a turn). This class inserts a mark into each such name before the template is
// rendered, cuts the rendered text at the marks, and tokenizes the pieces one by one: the halves of
// a name are plain text. Nearly all conversations have no such name; they are tokenized without
// marks.
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
  // Reads the names of the engine's special tokens once, which takes milliseconds. Keeps no
  // reference to the engine.
  explicit ControlText(const Engine& engine);

  // Renders the conversation by the engine's template, as Engine::apply_chat_template does, and
  // fails where that fails. Fills `prompt`, `add_special_tokens` and, where a text has the name of
  // a special token, `prompt_tokens` of `request`. Most applications need only this function.
  Status render(const Engine& engine, ChatPrompt prompt, Request& request) const;

  // mark() and tokenize() are the two steps of render(). mark() inserts marks into the names that
  // it finds in the strings of the prompt's JSON, at any depth, except in names of members; returns
  // whether it found any. JSON that is broken or nests deeper than 200 levels stays as it is;
  // templates refuse it.
  bool mark(ChatPrompt& prompt) const;
  // Returns the tokens of a rendered text that has marks.
  Result<std::vector<int32_t>> tokenize(const Engine& engine, const std::string& rendered) const;

 private:
  bool mark_text(std::string& text) const;
  bool mark_json(std::string& text) const;

  std::vector<std::string> names_;
  std::string mark_;  // random, so that no message can contain it
};

}  // namespace forerun
