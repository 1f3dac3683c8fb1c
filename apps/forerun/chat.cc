#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>

#include "base/status_macros.h"
#include "base/terminal_text.h"
#include "commands.h"
#include "conversation.h"
#include "flags.h"
#include "forerun/control_text.h"
#include "forerun/sampling_fields.h"
#include "interrupt.h"
#include "launch.h"
#include "line_editor.h"
#include "nearest.h"
#include "run_request.h"
#include "sampling/validate.h"
#include "terminal.h"
#include "text_input.h"
#include "tree_view.h"

namespace forerun::app {
namespace {

struct ChatFlags {
  EngineOptions engine;
  SamplingFlags sampling;
  std::string system;
  std::vector<std::string> stop;
  int32_t max_tokens = 1024;
  bool show_tree = false;
  bool compare = false;
};

class Chat {
 public:
  Chat(Engine& engine, const ChatFlags& flags, SamplingOptions sampling)
      : engine_(engine),
        control_(engine),
        flags_(flags),
        conversation_(flags.system),
        sampling_(std::move(sampling)),
        stop_(flags.stop),
        max_tokens_(flags.max_tokens) {
    make_commands();
  }

  bool left() const { return left_; }

  // Handles a typed line: a message, a command, or a message that begins with a slash.
  Status take(const std::string& line) {
    FORERUN_RETURN_IF_ERROR(check_utf8("line", line));
    if (line.starts_with("//")) return ask(line.substr(1));
    return line.starts_with("/") ? command(line) : ask(line);
  }

 private:
  struct ChatCommand {
    std::string name;
    std::string argument;  // name of the argument in help; empty: none
    std::string help;
    std::function<Status(const std::string& argument)> run;
  };

  void make_commands();
  Status command(const std::string& line);
  Status ask(const std::string& line);
  Status answer();
  Status show_answer(const Request& request);
  void print_help() const;

  template <class T>
  ChatCommand number_command(const SamplingField<T>& field);

  Engine& engine_;
  const ControlText control_;
  const ChatFlags& flags_;
  Conversation conversation_;
  SamplingOptions sampling_;
  std::vector<std::string> stop_;
  int32_t max_tokens_;
  std::vector<ChatCommand> commands_;
  bool left_ = false;
};

Status refuse(const std::string& command, const std::string& found, const std::string& accepted) {
  return {StatusCode::kInvalidArgument, command + ": found '" + found + "'; accepted: " + accepted};
}

template <class T>
std::optional<T> number_of(const std::string& text) {
  T number{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  const bool good = error == std::errc() && stopped == end;
  return good ? std::optional<T>(number) : std::nullopt;
}

template <class T>
Chat::ChatCommand Chat::number_command(const SamplingField<T>& field) {
  const std::string name = "/" + flag_name(field.name).substr(2);
  return {name, "N", field.help, [this, name, field](const std::string& text) {
            const std::optional<T> number = number_of<T>(text);
            if (!number || !sampling_in_range(field, *number)) {
              return refuse(name, text, range_text(field.min, field.max));
            }
            sampling_.*field.option = *number;
            return Status();
          }};
}

void Chat::make_commands() {
  commands_.push_back({"/help", "", "this list", [this](const std::string&) {
                         print_help();
                         return Status();
                       }});
  commands_.push_back({"/clear", "", "forget the conversation", [this](const std::string&) {
                         conversation_.clear();
                         return Status();
                       }});
  commands_.push_back({"/system", "TEXT", "set the system message and forget the conversation",
                       [this](const std::string& text) {
                         conversation_.set_system(text);
                         return Status();
                       }});
  commands_.push_back(
      {"/regenerate", "", "answer again, with the next seed", [this](const std::string&) {
         conversation_.take_back("assistant");
         if (!conversation_.waits_for_answer()) {
           return Status(StatusCode::kInvalidArgument, "/regenerate: nothing has been asked yet");
         }
         sampling_.seed = sampling_.seed.value_or(0) + 1;
         return answer();
       }});
  commands_.push_back({"/save", "FILE", "write the conversation to a file, as JSON",
                       [this](const std::string& path) { return conversation_.save(path); }});
  commands_.push_back({"/load", "FILE", "go on with a conversation that was saved",
                       [this](const std::string& path) { return conversation_.load(path); }});
  commands_.push_back({"/seed", "N|random", "seed of the answers: same seed, same answer",
                       [this](const std::string& text) {
                         const Result<uint64_t> seed = parse_seed(text);
                         if (!seed.ok()) return seed.status().with_context("/seed");
                         sampling_.seed = *seed;
                         std::cerr << "seed " << *seed << std::endl;
                         return Status();
                       }});
  for_each_sampling_field([&](const auto& field) { commands_.push_back(number_command(field)); });
  commands_.push_back(
      {"/max-tokens", "N", "most tokens in an answer", [this](const std::string& text) {
         const auto number = number_of<int32_t>(text);
         if (!number || *number < 1) {
           return refuse("/max-tokens", text, "a whole number, 1 or more");
         }
         max_tokens_ = *number;
         return Status();
       }});
  commands_.push_back(
      {"/stop", "TEXT", "end answers before this text too", [this](const std::string& text) {
         stop_.push_back(text);
         return Status();
       }});
  commands_.push_back({"/quit", "", "leave (or Ctrl-D)", [this](const std::string&) {
                         left_ = true;
                         return Status();
                       }});
}

void Chat::print_help() const {
  for (const ChatCommand& command : commands_) {
    std::string left = command.name + (command.argument.empty() ? "" : " " + command.argument);
    left.resize(std::max<size_t>(left.size(), 24), ' ');
    std::cout << left << "  " << command.help << '\n';
  }
  std::cout << "//...                     a message that begins with a slash\n"
               "Alt-Enter begins another line, Ctrl-C clears the text or stops an answer, Ctrl-R "
               "finds earlier text.\nPasted text becomes part of the message; text that is typed "
               "during an "
               "answer waits until the answer ends.\n"
            << std::flush;
}

Status Chat::command(const std::string& line) {
  const size_t space = line.find_first_of(" \n");
  const std::string name = line.substr(0, space);
  const size_t begin = space == line.npos ? line.npos : line.find_first_not_of(" \n", space);
  const std::string argument = begin == line.npos ? "" : line.substr(begin);
  const auto found = std::find_if(commands_.begin(), commands_.end(),
                                  [&](const ChatCommand& each) { return each.name == name; });
  if (found == commands_.end()) {
    std::vector<std::string> names;
    for (const ChatCommand& each : commands_) names.push_back(each.name);
    const std::string nearest = nearest_name(name, names);
    return Status(StatusCode::kInvalidArgument,
                  "there is no command " + name +
                      (nearest.empty() ? "" : "; did you mean " + nearest + "?") +
                      " (/help lists them, // sends a message that begins with a slash)");
  }
  if (found->argument.empty() != argument.empty()) {
    // "/system" alone removes the system message.
    if (!(found->name == "/system" && argument.empty())) {
      return refuse(found->name, argument,
                    found->argument.empty() ? "the command alone" : found->argument);
    }
  }
  return found->run(argument);
}

Status Chat::ask(const std::string& line) {
  conversation_.add("user", line);
  const Status status = answer();
  if (conversation_.waits_for_answer()) conversation_.take_back("user");
  return status;
}

Status Chat::answer() {
  Request request;
  ChatPrompt prompt;
  prompt.messages_json = conversation_.messages_json();
  FORERUN_RETURN_IF_ERROR(control_.render(engine_, std::move(prompt), request));
  std::vector<int32_t> tokens = request.prompt_tokens;
  if (tokens.empty()) {
    FORERUN_ASSIGN_OR_RETURN(tokens, engine_.tokenize(request.prompt, request.add_special_tokens));
  }
  const auto context = static_cast<size_t>(engine_.info().max_context_tokens);
  if (tokens.size() >= context) {
    return Status(StatusCode::kResourceExhausted,
                  "the conversation has " + std::to_string(tokens.size()) +
                      " tokens, and the context holds " + std::to_string(context) +
                      " including the answer; /clear forgets it, /save keeps it in a file");
  }
  request.sampling = sampling_;
  request.stop = stop_;
  request.max_new_tokens = max_tokens_;
  request.record_rounds = flags_.show_tree;
  return show_answer(request);
}

Status Chat::show_answer(const Request& request) {
  InterruptGuard guard;
  const auto on_event = [&](const Event& event) {
    if (!flags_.show_tree) std::cout << event.text;
    for (const SpeculationRound& round : event.rounds) {
      std::cout << format_round(round, engine_, stdout);
    }
    std::cout << std::flush;
  };
  FORERUN_ASSIGN_OR_RETURN(const Completion completion, run_request(engine_, request, on_event));
  if (flags_.show_tree) std::cout << completion.text;
  std::cout << std::endl;
  const RequestStats& stats = completion.stats;
  const bool is_full =
      stats.prompt_tokens + stats.output_tokens >= engine_.info().max_context_tokens;
  std::cerr << paint(
                   stderr, Colour::kDim,
                   "— " + describe(stats) +
                       (flags_.sampling.random_seed ? ", seed " + std::to_string(stats.seed) : "") +
                       (is_full ? "; the context is full, /clear forgets the conversation" : ""))
            << std::endl;
  conversation_.add("assistant", completion.text);
  if (!flags_.compare || InterruptGuard::interrupted()) return Status();
  FORERUN_ASSIGN_OR_RETURN(const Comparison comparison,
                           compare_with_plain(engine_, request, completion));
  std::cout << describe(comparison, flags_.engine.speculation) << std::flush;
  return Status();
}

Status run_chat(const ChatFlags& flags) {
  FORERUN_RETURN_IF_ERROR(check_utf8("--system", flags.system));
  FORERUN_ASSIGN_OR_RETURN(const SamplingOptions sampling, sampling_options(flags.sampling));
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, create_engine(flags.engine));
  // A checkpoint without a template cannot chat; fails now, not after the first line.
  FORERUN_RETURN_IF_ERROR(
      engine->apply_chat_template(R"([{"role":"user","content":"hello"}])").status());
  const bool by_hand = is_terminal(stdin);
  if (by_hand) {
    std::signal(SIGINT, SIG_IGN);  // it ends an answer or clears a line, never the chat
    std::cout << paint(stdout, Colour::kDim, engine->info().model_name + " — /help for commands")
              << std::endl;
  }
  LineEditor editor(default_history_path());
  Chat chat(*engine, flags, sampling);
  int64_t failed = 0;
  while (!chat.left()) {
    const std::optional<std::string> line = editor.read();
    if (!line) break;
    if (line->empty()) continue;
    const Status status = chat.take(*line);
    if (!by_hand) FORERUN_RETURN_IF_ERROR(InterruptGuard::status());
    if (status.ok()) continue;
    ++failed;
    std::cerr << "forerun: " << terminal_text(status.message()) << std::endl;
  }
  if (by_hand || failed == 0) return Status();
  return Status(StatusCode::kInvalidArgument,
                (failed == 1 ? "a line" : std::to_string(failed) + " lines") +
                    " of standard input failed; the messages above say why");
}

}  // namespace

Command add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk to a model through its own chat template");
  auto flags = std::make_shared<ChatFlags>();
  add_engine_flags(*command, flags->engine);
  add_sampling_flags(*command, flags->sampling);
  command->add_option("--system", flags->system, "System message");
  command->add_option("-n,--max-tokens", flags->max_tokens, "Most tokens in an answer")
      ->capture_default_str();
  add_stop_flag(*command, flags->stop);
  command->add_flag("--show-tree", flags->show_tree, "Show accepted and rejected drafts");
  command->add_flag("--compare", flags->compare,
                    "Decode each answer plainly too and compare speed and tokens");
  command->footer(
      "Example:\n  forerun chat --model models/demo-target --draft models/demo-draft "
      "--max-tokens 60\n"
      "once hf download has fetched both:\n"
      "  forerun chat --model Qwen/Qwen2.5-1.5B-Instruct --draft Qwen/Qwen2.5-0.5B-Instruct");
  return with_hosts(command, &flags->engine, [flags] { return run_chat(*flags); });
}

}  // namespace forerun::app
