// Text functions of an engine's checkpoint: token ids, bytes of tokens, and conversations by the
// chat template. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/load/opened_model.h"
#include "forerun/chat_prompt.h"
#include "forerun/status.h"
#include "text/chat_template.h"

namespace forerun {

class EngineText {
 public:
  // `target` must outlive the object. A missing or broken template is an error only if it is used,
  // since most requests need none.
  explicit EngineText(const OpenedModel& target);

  const Tokenizer& tokenizer() const { return target_.tokenizer(); }
  // These functions do what Engine's functions of the same names do.
  Result<std::string> token_bytes(int32_t token) const;
  std::vector<std::string> control_tokens() const;
  Result<std::string> apply_chat_template(const ChatPrompt& prompt) const;
  std::string chat_template() const { return chat_template_.ok() ? chat_template_->source() : ""; }

 private:
  const OpenedModel& target_;
  const Result<ChatTemplate> chat_template_;
};

}  // namespace forerun
