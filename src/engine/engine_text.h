// What an engine offers of its checkpoint's text: token ids and bytes, and conversations by the
// chat template. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/opened_model.h"
#include "forerun/chat_prompt.h"
#include "forerun/status.h"
#include "text/chat_template.h"

namespace forerun {

class EngineText {
 public:
  // `target` must outlive it. A template that is missing or broken is an error where it is used:
  // most requests need none.
  explicit EngineText(const OpenedModel& target);

  const Tokenizer& tokenizer() const { return target_.tokenizer; }
  // These as Engine's.
  Result<std::string> token_bytes(int32_t token) const;
  std::vector<std::string> control_tokens() const;
  Result<std::string> apply_chat_template(const ChatPrompt& prompt) const;
  std::string chat_template() const { return chat_template_.ok() ? chat_template_->source() : ""; }

 private:
  const OpenedModel& target_;
  const Result<ChatTemplate> chat_template_;
};

}  // namespace forerun
