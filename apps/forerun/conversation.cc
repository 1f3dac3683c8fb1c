#include "conversation.h"

#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "output.h"
#include "text_input.h"

namespace forerun::app {
namespace {

using nlohmann::ordered_json;

bool is_of(const ordered_json& message, const std::string& role) {
  return message.value("role", "") == role;
}

bool is_message(const ordered_json& message) {
  if (!message.is_object()) return false;
  const auto role = message.find("role");
  const auto content = message.find("content");
  return role != message.end() && role->is_string() && content != message.end() &&
         content->is_string() &&
         (is_of(message, "system") || is_of(message, "user") || is_of(message, "assistant"));
}

}  // namespace

Conversation::Conversation(const std::string& system)
    : messages_(std::make_unique<ordered_json>(ordered_json::array())) {
  set_system(system);
}

Conversation::~Conversation() = default;

void Conversation::clear() {
  const bool has_system = !messages_->empty() && is_of(messages_->front(), "system");
  messages_->erase(messages_->begin() + (has_system ? 1 : 0), messages_->end());
}

void Conversation::set_system(const std::string& system) {
  *messages_ = ordered_json::array();
  if (!system.empty()) add("system", system);
}

void Conversation::add(const std::string& role, const std::string& text) {
  messages_->push_back({{"role", role}, {"content", text}});
}

bool Conversation::take_back(const std::string& role) {
  if (messages_->empty() || !is_of(messages_->back(), role)) return false;
  messages_->erase(messages_->size() - 1);
  return true;
}

bool Conversation::waits_for_answer() const {
  return !messages_->empty() && is_of(messages_->back(), "user");
}

std::string Conversation::messages_json() const { return json_text(*messages_); }

Status Conversation::save(const std::string& path) const {
  return write_output("/save", path, json_text({{"messages", *messages_}}));
}

Status Conversation::load(const std::string& path) {
  FORERUN_ASSIGN_OR_RETURN(const std::string text, read_text("/load", path));
  const ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto messages = json.is_object() ? json.find("messages") : json.end();
  bool good = json.is_object() && messages != json.end() && messages->is_array();
  for (size_t index = 0; good && index < messages->size(); ++index) {
    good = is_message((*messages)[index]);
  }
  if (!good) {
    return Status(
        StatusCode::kInvalidArgument,
        "/load: '" + path +
            "' holds no conversation; accepted: a file that /save wrote, {\"messages\": "
            "[{\"role\": \"user\", \"content\": \"...\"}, ...]} with roles system, user and "
            "assistant");
  }
  *messages_ = *messages;
  return Status();
}

}  // namespace forerun::app
