// forerun completion: prints scripts that complete commands, flags and their values, from CLI11's
// tables.
#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <map>
#include <memory>

#include "commands.h"
#include "flag_table.h"

namespace forerun::app {
namespace {

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// Returns `text` within single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Returns the first sentence, which is enough beside a flag.
std::string first_part(const std::string& help) {
  const size_t end = help.find_first_of(":;(");
  std::string part = help.substr(0, end);
  while (!part.empty() && part.back() == ' ') part.pop_back();
  return part;
}

std::vector<std::string> all_names(const std::vector<FlagEntry>& flags) {
  std::vector<std::string> names;
  for (const FlagEntry& flag : flags) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

std::string bash_values(const std::string& command, const std::vector<FlagEntry>& flags) {
  std::string cases;
  for (const FlagEntry& flag : flags) {
    if (flag.value.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : flag.names) patterns.push_back("'" + command + " " + name + "'");
    cases += "    " + joined(patterns, "|") + ")\n      COMPREPLY=($(compgen ";
    cases += flag.choices.empty() ? "-f" : "-W " + quoted(joined(flag.choices, " "));
    cases += " -- \"$cur\"))\n      return ;;\n";
  }
  return cases;
}

std::string bash_script(const CLI::App& app) {
  const std::vector<CommandEntry> commands = commands_of(app);
  const std::vector<FlagEntry> general = flags_of(app);
  std::vector<std::string> names;
  std::string values;
  std::string flags;
  for (const CommandEntry& command : commands) {
    names.push_back(command.name);
    values += bash_values(command.name, command.flags) + bash_values(command.name, general);
    flags += "    " + command.name + ") flags=" +
             quoted(joined(all_names(command.flags), " ") + " " + joined(all_names(general), " ")) +
             " ;;\n";
  }
  return "# bash completion of forerun; made by: forerun completion bash\n"
         "_forerun() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' "
         "word\n"
         "  local flags=" +
         quoted(joined(all_names(general), " ")) +
         "\n"
         "  COMPREPLY=()\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD - 1}\"; do\n"
         "    case $word in\n"
         "    " +
         joined(names, "|") +
         ")\n"
         "      command=$word\n"
         "      break ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$command $prev\" in\n" +
         values + bash_values("", general) +
         "  esac\n"
         "  case $command in\n" +
         flags +
         "  esac\n"
         "  if [[ $cur == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
         "  elif [[ -z $command ]]; then\n"
         "    COMPREPLY=($(compgen -W " +
         quoted(joined(names, " ")) +
         " -- \"$cur\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _forerun forerun\n";
}

// Returns '(-m --model)'{-m,--model}'[help]:TEXT:_files'.
std::string zsh_flag(const FlagEntry& flag) {
  std::string help;
  for (const char c : first_part(flag.help)) {
    help +=
        (c == '[' || c == ']' || c == ':' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  }
  const std::string value =
      flag.value.empty()
          ? ""
          : ":value:" + (flag.choices.empty() ? std::string("_files")
                                              : "(" + joined(flag.choices, " ") + ")");
  const std::string names =
      flag.names.size() == 1 ? flag.names.front() : "{" + joined(flag.names, ",") + "}";
  return "        '*'" + names + quoted("[" + help + "]" + value) + " \\\n";
}

std::string zsh_script(const CLI::App& app) {
  std::string descriptions;
  std::string cases;
  std::string general;
  for (const FlagEntry& flag : flags_of(app)) general += zsh_flag(flag);
  for (const CommandEntry& command : commands_of(app)) {
    descriptions += "        " + quoted(command.name + ":" + first_part(command.help)) + "\n";
    cases += "      " + command.name + ")\n        _arguments \\\n";
    for (const FlagEntry& flag : command.flags) cases += zsh_flag(flag);
    cases += general + "        '*:file:_files' ;;\n";
  }
  return "#compdef forerun\n"
         "# zsh completion of forerun; made by: forerun completion zsh\n"
         "_forerun() {\n"
         "  local context state state_descr line curcontext=$curcontext\n"
         "  typeset -A opt_args\n"
         "  _arguments -C \\\n" +
         general +
         "        '1:command:->command' '*::argument:->argument'\n"
         "  case $state in\n"
         "    command)\n"
         "      local -a commands=(\n" +
         descriptions +
         "      )\n"
         "      _describe command commands ;;\n"
         "    argument)\n"
         "      case $line[1] in\n" +
         cases +
         "      esac ;;\n"
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _forerun ]]; then _forerun \"$@\"; else compdef _forerun forerun; "
         "fi\n";
}

std::string fish_flags(const std::string& condition, const std::vector<FlagEntry>& flags) {
  std::string lines;
  for (const FlagEntry& flag : flags) {
    lines += "complete -c forerun -n " + quoted(condition);
    for (const std::string& name : flag.names) {
      lines += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (!flag.value.empty()) {
      lines += flag.choices.empty() ? " -r -F" : " -x -a " + quoted(joined(flag.choices, " "));
    }
    lines += " -d " + quoted(first_part(flag.help)) + "\n";
  }
  return lines;
}

std::string fish_script(const CLI::App& app) {
  std::string lines = "# fish completion of forerun; made by: forerun completion fish\n";
  for (const CommandEntry& command : commands_of(app)) {
    lines += "complete -c forerun -n __fish_use_subcommand -f -a " + command.name + " -d " +
             quoted(first_part(command.help)) + "\n";
    lines += fish_flags("__fish_seen_subcommand_from " + command.name, command.flags);
  }
  return lines + fish_flags("true", flags_of(app));
}

}  // namespace

Command add_completion(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "completion", "Print a script by which a shell completes commands, flags and values");
  const std::map<std::string, std::function<std::string(const CLI::App&)>> scripts = {
      {"bash", bash_script}, {"fish", fish_script}, {"zsh", zsh_script}};
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, fish or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "fish", "zsh"}));
  command->footer("Example:\n  source <(forerun completion bash)");
  return {command, [&app, shell, scripts] {
            std::cout << scripts.at(*shell)(app);
            return Status();
          }};
}

}  // namespace forerun::app
