#include "engine/info/engine_text.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "engine/load/model_text.h"

namespace forerun {

EngineText::EngineText(const OpenedModel& target)
    : target_(target), chat_template_(load_chat_template(target.checkpoint)) {}

Result<std::string> EngineText::token_bytes(int32_t token) const {
  const int32_t vocab_size = target_.live_vocab();
  if (token < 0 || token >= vocab_size) {
    return Status(StatusCode::kInvalidArgument, "token: found " + std::to_string(token) +
                                                    "; accepted: 0 to " +
                                                    std::to_string(vocab_size - 1));
  }
  std::optional<std::string> bytes = target_.tokenizer().token_bytes(token);
  if (bytes) return std::move(*bytes);
  return Status(StatusCode::kNotFound,
                "token: found " + std::to_string(token) +
                    ", for which the tokenizer has no token; accepted: ids that have one");
}

std::vector<std::string> EngineText::control_tokens() const {
  std::vector<std::string> names;
  for (int32_t token = 0; token < target_.live_vocab(); ++token) {
    if (!target_.tokenizer().is_special(token)) continue;
    if (auto name = target_.tokenizer().token_bytes(token)) names.push_back(std::move(*name));
  }
  return names;
}

Result<std::string> EngineText::apply_chat_template(const ChatPrompt& prompt) const {
  FORERUN_RETURN_IF_ERROR(chat_template_.status());
  ChatInput input;
  input.messages_json = prompt.messages_json.empty() ? "[]" : prompt.messages_json;
  input.tools_json = prompt.tools_json;
  input.documents_json = prompt.documents_json;
  input.variables_json = prompt.variables_json;
  input.add_generation_prompt = prompt.add_generation_prompt;
  return chat_template_->render(input);
}

}  // namespace forerun
