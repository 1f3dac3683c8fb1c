#include "line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <termios.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <system_error>

#include "terminal.h"

namespace forerun::app {
namespace {

constexpr int kHistoryLines = 1000;

// Sets a UTF-8 locale: libedit decodes characters by the locale, and without one é would be two
// keys.
void take_utf8() {
  for (const char* locale : {"", "C.UTF-8", "en_US.UTF-8"}) {
    if (std::setlocale(LC_CTYPE, locale) == nullptr) continue;
    if (std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return;
  }
}

const char* prompt_of(EditLine*) { return "› "; }

unsigned char begin_another_line(EditLine* editor, int) {
  return el_insertstr(editor, "\n") == 0 ? CC_REFRESH : CC_ERROR;
}

// Bracketed paste: on request, a terminal puts pasted text between two marks, so that line breaks
// in the text do not end the message, and tabs and escapes are not handled as keys.
constexpr std::string_view kAskForPasteMarks = "\x1b[?2004h";
constexpr std::string_view kNoPasteMarks = "\x1b[?2004l";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";

unsigned char insert_paste(EditLine* editor, int) {
  std::wstring text;
  for (wchar_t key = 0; !text.ends_with(kPasteEnd); text += key) {
    if (el_wgetc(editor, &key) != 1) return CC_EOF;
  }
  text.resize(text.size() - kPasteEnd.size());
  std::wstring kept;
  for (size_t at = 0; at < text.size(); ++at) {
    const wchar_t key = text[at];
    const bool is_break = key == L'\r' || key == L'\n';
    if (key == L'\n' && at > 0 && text[at - 1] == L'\r') continue;
    if (is_break) kept += L'\n';
    // Other control characters would act as keys that were not pressed.
    if (!is_break && (key == L'\t' || (key >= 0x20 && key != 0x7f))) kept += key;
  }
  if (kept.empty()) return CC_NORM;
  return el_winsertstr(editor, kept.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char clear_text(EditLine* editor, int) {
  constexpr int kToTheEnd = 1 << 20;
  el_deletestr(editor, el_cursor(editor, kToTheEnd));
  std::fputs("^C\n", stdout);
  std::fflush(stdout);
  return CC_REDISPLAY;
}

unsigned char suspend(EditLine*, int) {
  std::cout << kNoPasteMarks << std::flush;
  raise(SIGTSTP);  // libedit's handler restores the terminal meanwhile
  std::cout << kAskForPasteMarks << std::flush;
  return CC_REDISPLAY;
}

}  // namespace

std::string default_history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state != '\0') return std::string(state) + "/forerun/chat-history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return std::string(home) + "/.local/state/forerun/chat-history";
}

struct LineEditor::Terminal {
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::string path;
  termios before{};  // the terminal's state as the shell left it
  bool is_known = tcgetattr(STDIN_FILENO, &before) == 0;

  explicit Terminal(std::string history_path) : path(std::move(history_path)) {
    take_utf8();
    editor = el_init("forerun", stdin, stdout, stderr);
    history = history_init();
    HistEvent event{};
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!path.empty()) ::history(history, &event, H_LOAD, path.c_str());
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_PROMPT, prompt_of);
    el_set(editor, EL_HIST, ::history, history);
    el_set(editor, EL_SIGNAL, 1);
    el_set(editor, EL_ADDFN, "another-line", "Begin another line", begin_another_line);
    el_set(editor, EL_ADDFN, "clear-text", "Clear the text", clear_text);
    el_set(editor, EL_ADDFN, "suspend", "Back to the shell", suspend);
    // Inserting into a line of several rows would lose the characters after the insertion: libedit
    // tells the terminal to shift a row's characters, although they have moved to the next row. For
    // a terminal without these abilities it writes the characters again.
    for (const char* ability : {"ic", "IC", "im", "ei", "dc", "DC", "dm", "ed"}) {
      el_set(editor, EL_SETTC, ability, "", nullptr);
    }
    // A terminal sends Enter as either.
    el_set(editor, EL_BIND, "^[^J", "another-line", nullptr);
    el_set(editor, EL_BIND, "^[^M", "another-line", nullptr);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    // Ctrl-C is a key while a line is typed, and a signal again while an answer is printed.
    el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
    el_set(editor, EL_BIND, "^C", "clear-text", nullptr);
    el_set(editor, EL_BIND, "^Z", "suspend", nullptr);
    el_set(editor, EL_BIND, "^I", "ed-insert", nullptr);
    el_set(editor, EL_ADDFN, "insert-paste", "Insert what is pasted", insert_paste);
    el_set(editor, EL_BIND, "^[[200~", "insert-paste", nullptr);
    el_source(editor, nullptr);  // the user's ~/.editrc
  }
  ~Terminal() {
    history_end(history);
    el_end(editor);
    std::cout << kNoPasteMarks << std::flush;
    if (is_known) tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Holds keys back until the next text is read: they are neither shown nor handled, except Ctrl-C
  // and other signals: the keys wait and become the beginning of that text.
  void hold_keys_back() const {
    if (!is_known) return;
    termios quiet = before;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN);
    quiet.c_iflag &= ~static_cast<tcflag_t>(ICRNL);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
  }

  void remember(const std::string& text) {
    HistEvent event{};
    ::history(history, &event, H_ENTER, text.c_str());
    if (path.empty()) return;
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    ::history(history, &event, H_SAVE, path.c_str());
  }
};

LineEditor::LineEditor(const std::string& history) {
  if (is_terminal(stdin)) terminal_ = std::make_unique<Terminal>(history);
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read() {
  std::string text;
  if (terminal_ == nullptr) {
    if (!std::getline(std::cin, text)) return std::nullopt;
    return text;
  }
  std::cout << kAskForPasteMarks << std::flush;
  // Done before the prompt is shown: by default libedit takes only the keys after it, and Ctrl-C
  // between the two would be a signal.
  el_set(terminal_->editor, EL_PREP_TERM, 1);
  int bytes = 0;
  const char* line = el_gets(terminal_->editor, &bytes);
  terminal_->hold_keys_back();
  if (line == nullptr || bytes <= 0) {
    std::cout << std::endl;
    return std::nullopt;
  }
  text.assign(line, static_cast<size_t>(bytes));
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (!text.empty()) terminal_->remember(text);
  return text;
}

}  // namespace forerun::app
