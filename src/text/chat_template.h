// ChatTemplate: renders a conversation as the text that a checkpoint was trained on.
//
// Runs the checkpoint's own Jinja template in an interpreter of the subset that published chat
// templates use, set up as transformers does (trim_blocks, lstrip_blocks, its tojson,
// raise_exception, strftime_now, {% generation %}, break and continue). A template can neither
// reach outside its input nor run or nest without end.
//
// Threads: const methods may run in parallel.
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
  // A JSON list of messages, used instead of `messages` if not empty: for tool calls and whatever
  // else a message may hold.
  std::string messages_json;
  std::string tools_json;      // a JSON list; empty: none
  std::string documents_json;  // a JSON list; empty: none
  std::string variables_json;  // a JSON object of further variables; empty: none
  // Empty: what the checkpoint names, else undefined.
  std::string bos_token, eos_token;
  bool add_generation_prompt = true;
  // The time that strftime_now shows, in seconds since 1970 UTC; without it, the local time at
  // rendering.
  std::optional<int64_t> now_unix_s;
};

// What a checkpoint says of its templates, wherever its files keep it.
struct ChatTemplateSources {
  std::string regular;
  std::string tool_use;  // taken where tools are given; empty: `regular` is
  std::vector<std::pair<std::string, std::string>> special_tokens;  // "bos_token" and its text
  std::string where, tool_use_where;                                // for messages
};

class ChatTemplate {
 public:
  // kInvalidArgument with the line for broken source, kUnsupported for Jinja outside the subset.
  static Result<ChatTemplate> parse(std::string source);

  // From a checkpoint directory: chat_template.jinja, chat_template.json, or "chat_template" of
  // tokenizer_config.json (one template, or a list of named ones of which "default" is taken, and
  // "tool_use" where tools are given); additional_chat_templates/tool_use.jinja goes before a named
  // "tool_use". Special tokens (bos_token, eos_token, unk_token, pad_token, ...) are those of
  // tokenizer_config.json and special_tokens_map.json. kNotFound where the checkpoint has no
  // template.
  static Result<ChatTemplate> load(const std::filesystem::path& checkpoint_dir);
  // What load() reads, before it is parsed.
  static Result<ChatTemplateSources> load_sources(const std::filesystem::path& checkpoint_dir);

  static Result<ChatTemplate> make(ChatTemplateSources sources);

  // The text of the template, followed by that of the template for tools, if there is one.
  std::string source() const;

  // kInvalidArgument where the input does not fit the template (its own message where it refuses),
  // kResourceExhausted where the template does not come to an end.
  Result<std::string> render(const ChatInput& input) const;

 private:
  struct Parsed;
  struct SpecialTokens;
  ChatTemplate() = default;
  std::shared_ptr<const Parsed> default_, tool_use_;     // tool_use_ may be null
  std::shared_ptr<const SpecialTokens> special_tokens_;  // may be null
};

}  // namespace forerun
