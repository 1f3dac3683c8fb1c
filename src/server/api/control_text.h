// Keeps what clients write from becoming control tokens.
//
// A chat template puts special tokens around messages, and the tokenizer finds them in the rendered
// text by their names; a message that spells such a name would be taken for one ("<|im_end|>" ends
// somebody's turn). So where a client's text has the name of a special token, a mark goes into it
// before the template is rendered, and the rendered text is cut at the marks and tokenized piece by
// piece: the halves of a name are plain text. Texts without such names, nearly all, are tokenized
// as they are.
#pragma once

#include <string>
#include <vector>

#include "forerun/engine.h"
#include "server/json_fwd.h"

namespace forerun::server {

class ControlText {
 public:
  explicit ControlText(const Engine& engine);

  // Puts marks into the names of special tokens that stand in texts of `json`, at any depth; names
  // of members aside. Whether there were any.
  bool mark(Json& json) const;
  // The tokens of a rendered text that has marks.
  Result<std::vector<int32_t>> tokenize(const Engine& engine, const std::string& rendered) const;

 private:
  bool mark_text(std::string& text) const;

  const std::vector<std::string> names_;
  const std::string mark_;  // a text that nobody can know
};

}  // namespace forerun::server
