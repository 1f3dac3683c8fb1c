// The messages of a chat, in the form of chat templates and of the files of /save.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "forerun/status.h"

namespace forerun::app {

class Conversation {
 public:
  explicit Conversation(const std::string& system);
  ~Conversation();

  // Removes all messages but the system message.
  void clear();
  void set_system(const std::string& system);  // removes all other messages

  void add(const std::string& role, const std::string& text);
  // Removes the last message if it has this role; returns whether it had.
  bool take_back(const std::string& role);
  // Returns whether the last question has no answer yet.
  bool waits_for_answer() const;

  // Returns [{"role": ..., "content": ...}, ...].
  std::string messages_json() const;

  // Save to and load from a file of {"messages": [...]}. A failed load changes nothing.
  Status save(const std::string& path) const;
  Status load(const std::string& path);

 private:
  std::unique_ptr<nlohmann::ordered_json> messages_;
};

}  // namespace forerun::app
