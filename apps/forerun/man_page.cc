// forerun man: prints the manual page, from CLI11's tables.
#include <CLI/CLI.hpp>
#include <iostream>

#include "commands.h"
#include "flag_table.h"

namespace forerun::app {
namespace {

// Returns text that roff does not interpret: escapes backslashes, makes a hyphen a minus, and
// leaves no request at the beginning of a line.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string flag_lines(const std::vector<FlagEntry>& flags) {
  std::string out;
  for (const FlagEntry& flag : flags) {
    out += ".TP\n";
    for (size_t index = 0; index < flag.names.size(); ++index) {
      out += (index == 0 ? "\\fB" : ", \\fB") + plain(flag.names[index]) + "\\fR";
    }
    out += flag.value.empty() ? "\n" : " \\fI" + plain(flag.value) + "\\fR\n";
    out += plain(flag.help) + "\n";
  }
  return out;
}

std::string man_page(const CLI::App& app) {
  std::string out = ".TH FORERUN 1 \"\" \"forerun " FORERUN_VERSION
                    "\" \"User Commands\"\n"
                    ".SH NAME\nforerun \\- exact speculative decoding for large language models\n"
                    ".SH SYNOPSIS\n.B forerun\n\\fICOMMAND\\fR [\\fIFLAG\\fR ...]\n"
                    ".SH DESCRIPTION\n" +
                    plain(app.get_description()) + "\n.SH GENERAL FLAGS\n" +
                    flag_lines(flags_of(app)) + ".SH COMMANDS\n";
  const std::vector<CommandEntry> commands = commands_of(app);
  for (const CommandEntry& command : commands) {
    out += ".TP\n\\fB" + plain(command.name) + "\\fR\n" + plain(command.help) + "\n";
  }
  for (const CommandEntry& command : commands) {
    out += ".SH FORERUN ";
    for (const char c : command.name) out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    out += "\n" + plain(command.help) + ".\n" + flag_lines(command.flags);
    if (!command.footer.empty()) {
      out += ".PP\n.nf\n" + plain(command.footer) + "\n.fi\n";
    }
  }
  return out +
         ".SH EXIT STATUS\n"
         "0: success. 1: a failure, named on standard error. 2: flags that make no sense. 130, "
         "143: "
         "Ctrl\\-C or SIGTERM cut a request short.\n"
         ".SH FILES\n"
         ".TP\n\\fI~/.cache/forerun/step\\-costs\\fR\nWhat Steps cost on this machine "
         "($XDG_CACHE_HOME).\n"
         ".TP\n\\fI~/.local/state/forerun/chat\\-history\\fR\nWhat was typed in chat "
         "($XDG_STATE_HOME).\n"
         ".TP\n\\fI~/.cache/huggingface/hub\\fR\nWhere org/name is looked up ($HF_HUB_CACHE, "
         "$HF_HOME).\n";
}

}  // namespace

Command add_man(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Print the manual page");
  command->footer("Example:\n  forerun man | man -l -");
  return {command, [&app] {
            std::cout << man_page(app);
            return Status();
          }};
}

}  // namespace forerun::app
