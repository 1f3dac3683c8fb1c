// Lines from a person, who edits and finds them again, or from a pipe.
//
// On a terminal: Alt-Enter begins another line of the same text, Ctrl-C clears it, Ctrl-D leaves,
// the up and down keys walk through what was typed, also in earlier sessions. Pasted text becomes
// part of the line's text, with line breaks and tabs. Text is UTF-8 whatever the locale says. Keys
// that are typed between two reads are not shown until the second read, whose text begins with
// them.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace forerun::app {

// $XDG_STATE_HOME/forerun/chat-history, by default ~/.local/state/forerun/chat-history; empty where
// the environment names neither.
std::string default_history_path();

class LineEditor {
 public:
  // Lines are kept in the file `history`, readable by its owner alone; empty: nowhere.
  explicit LineEditor(const std::string& history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next text without its final line break; nothing at the end of input.
  std::optional<std::string> read();

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null: a pipe is read
};

}  // namespace forerun::app
