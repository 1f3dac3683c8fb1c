// What was said in a chat, as its template and the files of /save hold it.
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

  // Forgets all that was said; a system message stays.
  void clear();
  void set_system(const std::string& system);  // forgets too

  void add(const std::string& role, const std::string& text);
  // Takes the last message back if it is of this role. False: it is not.
  bool take_back(const std::string& role);
  // Whether something has been asked that has no answer.
  bool waits_for_answer() const;

  // [{"role": ..., "content": ...}, ...]
  std::string messages_json() const;

  // A file of {"messages": [...]}. A failed load changes nothing.
  Status save(const std::string& path) const;
  Status load(const std::string& path);

 private:
  std::unique_ptr<nlohmann::ordered_json> messages_;
};

}  // namespace forerun::app
