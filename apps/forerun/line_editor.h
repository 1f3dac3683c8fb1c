// Reads texts from a person at a terminal, with editing and a history, or lines from a pipe.
//
// On a terminal, Alt-Enter begins another line of the same text, Ctrl-C clears the text, Ctrl-D
// leaves, and the up and down keys step through earlier texts, including those of earlier sessions.
// Pasted text is inserted with its line breaks and tabs. Text is UTF-8 in any locale. Keys that are
// typed between two reads are not shown until the second read; its text begins with them.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace forerun::app {

// Returns $XDG_STATE_HOME/forerun/chat-history, by default ~/.local/state/forerun/chat-history; an
// empty string if the environment has neither XDG_STATE_HOME nor HOME.
std::string default_history_path();

class LineEditor {
 public:
  // Keeps lines in the file `history`, readable only by its owner; empty: keeps none.
  explicit LineEditor(const std::string& history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Returns the next text without its final line break; nothing at the end of input.
  std::optional<std::string> read();

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null: a pipe is read
};

}  // namespace forerun::app
