// ChatTemplate renders a conversation as the text format that a checkpoint was trained on.
//
// It runs the checkpoint's own Jinja template in an interpreter of the subset that published chat
// templates use, configured as in transformers (trim_blocks, lstrip_blocks, its tojson,
// raise_exception, strftime_now, {% generation %}, break and continue). A template cannot access
// anything outside its input, and cannot run or nest without limit.
//
// Thread rules: const methods may run in parallel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "forerun/status.h"

namespace forerun {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
};

struct ChatInput {
  std::vector<ChatMessage> messages;
  // A JSON list of messages, used instead of `messages` if not empty: for tool calls and other
  // members of a message.
  std::string messages_json;
  std::string tools_json;      // a JSON list; empty: none
  std::string documents_json;  // a JSON list; empty: none
  std::string variables_json;  // a JSON object of further variables; empty: none
  // Empty: the checkpoint's own, else undefined.
  std::string bos_token, eos_token;
  bool add_generation_prompt = true;
  // The time that strftime_now returns, in seconds since 1970 UTC; unset: the local time at
  // rendering.
  std::optional<int64_t> now_unix_s;
};

// The checkpoint's templates and special tokens, from any of its files.
struct ChatTemplateSources {
  std::string regular;
  std::string tool_use;  // used if tools are given; empty: `regular` is used
  // Pairs such as "bos_token" and its text.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  std::string where, tool_use_where;  // names in messages
};

class ChatTemplate {
 public:
  // Fails with kInvalidArgument and the line for an invalid template, kUnsupported for Jinja
  // outside the subset.
  static Result<ChatTemplate> parse(std::string source);

  // Loads the templates of a checkpoint directory: chat_template.jinja, chat_template.json, or
  // "chat_template" of tokenizer_config.json (one template, or a list of named ones: "default" is
  // used, and "tool_use" if tools are given); additional_chat_templates/tool_use.jinja takes
  // precedence over a named "tool_use". Special tokens (bos_token, eos_token, unk_token, pad_token,
  // ...) are those of tokenizer_config.json and special_tokens_map.json. Fails with kNotFound if
  // the checkpoint has no template.
  static Result<ChatTemplate> load(const std::filesystem::path& checkpoint_dir);
  // Returns the sources that load() parses.
  static Result<ChatTemplateSources> load_sources(const std::filesystem::path& checkpoint_dir);

  static Result<ChatTemplate> make(ChatTemplateSources sources);

  // Returns the text of the template, followed by that of the template for tools, if there is one.
  std::string source() const;

  // Fails with kInvalidArgument if the input does not fit the template (with the template's own
  // message if it refuses), and with kResourceExhausted if the template exceeds its budget.
  Result<std::string> render(const ChatInput& input) const;

 private:
  struct Parsed;
  struct SpecialTokens;
  ChatTemplate() = default;
  std::shared_ptr<const Parsed> default_, tool_use_;     // tool_use_ may be null
  std::shared_ptr<const SpecialTokens> special_tokens_;  // may be null
};

}  // namespace forerun
