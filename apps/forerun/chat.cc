#include <readline/history.h>
#include <readline/readline.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.h"
#include "flags.h"
#include "interrupt.h"
#include "output.h"
#include "run_request.h"
#include "terminal.h"
#include "text_input.h"
#include "tree_view.h"

namespace forerun::app {
namespace {

struct ChatFlags {
  EngineOptions engine;
  SamplingFlags sampling;
  std::string system;
  int32_t max_tokens = 1024;
  bool show_tree = false;
  bool compare = false;
};

std::string history_path() {
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : std::string(home) + "/.forerun_history";
}

// A line as the user typed it; nothing at the end of input. Edits and remembers lines on a
// terminal, reads plainly from a pipe.
std::optional<std::string> read_line() {
  if (!is_terminal(stdin)) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  const std::unique_ptr<char, decltype(&std::free)> line(readline("› "), &std::free);
  if (line == nullptr) return std::nullopt;
  std::string text = line.get();
  if (!text.empty()) add_history(text.c_str());
  return text;
}

void print_help() {
  std::cout << "/clear  forget the conversation\n"
               "/system TEXT  set the system message and forget the conversation\n"
               "/seed N  set the seed\n"
               "/quit  leave (or end of input)\n"
               "Ctrl-C stops an answer.\n";
}

class Chat {
 public:
  Chat(Engine& engine, const ChatFlags& flags, SamplingOptions sampling)
      : engine_(engine), flags_(flags), sampling_(std::move(sampling)) {
    clear(flags.system);
  }

  void clear(const std::string& system) {
    system_ = system;
    messages_ = nlohmann::ordered_json::array();
    if (!system.empty()) messages_.push_back({{"role", "system"}, {"content", system}});
  }

  // Returns false to leave.
  bool command(const std::string& line) {
    if (line == "/quit" || line == "/exit") return false;
    if (line == "/clear") {
      clear(system_);
    } else if (line.starts_with("/system ")) {
      clear(line.substr(8));
    } else if (line.starts_with("/seed ")) {
      sampling_.seed = std::strtoull(line.c_str() + 6, nullptr, 10);
    } else {
      print_help();
    }
    return true;
  }

  Status answer(const std::string& line) {
    messages_.push_back({{"role", "user"}, {"content", line}});
    const auto rendered = engine_.apply_chat_template(json_text(messages_));
    if (!rendered.ok()) {
      messages_.erase(messages_.size() - 1);
      return rendered.status();
    }
    Request request;
    request.prompt = *rendered;
    request.add_special_tokens = false;
    request.sampling = sampling_;
    request.max_new_tokens = flags_.max_tokens;
    request.record_rounds = flags_.show_tree;
    InterruptGuard guard;
    FORERUN_ASSIGN_OR_RETURN(const Completion completion,
                             run_request(engine_, request, [&](const Event& event) {
                               if (flags_.show_tree) {
                                 for (const SpeculationRound& round : event.rounds) {
                                   std::cout << format_round(round, engine_, stdout);
                                 }
                               } else {
                                 std::cout << event.text;
                               }
                               std::cout << std::flush;
                             }));
    if (flags_.show_tree) std::cout << completion.text;
    std::cout << std::endl;
    std::cerr << paint(stderr, Colour::kDim, "— " + describe(completion.stats)) << std::endl;
    messages_.push_back({{"role", "assistant"}, {"content", completion.text}});
    if (!flags_.compare || InterruptGuard::interrupted()) return Status();
    FORERUN_ASSIGN_OR_RETURN(const Comparison comparison,
                             compare_with_plain(engine_, request, completion));
    std::cout << describe(comparison) << std::flush;
    return Status();
  }

 private:
  Engine& engine_;
  const ChatFlags& flags_;
  SamplingOptions sampling_;
  std::string system_;
  nlohmann::ordered_json messages_;
};

Status run_chat(const ChatFlags& flags) {
  FORERUN_RETURN_IF_ERROR(check_utf8("--system", flags.system));
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, create_engine(flags.engine));
  // A checkpoint without a template cannot chat: said now, not after the first line.
  const auto probe = engine->apply_chat_template(R"([{"role":"user","content":"hello"}])");
  if (!probe.ok()) return probe.status();
  FORERUN_ASSIGN_OR_RETURN(const SamplingOptions sampling, sampling_options(flags.sampling));
  const std::string history = history_path();
  if (is_terminal(stdin) && !history.empty()) read_history(history.c_str());
  if (is_terminal(stdin)) {
    std::cout << paint(stdout, Colour::kDim, engine->info().model_name + " — /help for commands")
              << std::endl;
  }
  Chat chat(*engine, flags, sampling);
  while (const std::optional<std::string> line = read_line()) {
    if (line->empty()) continue;
    Status status = check_utf8("line", *line);
    if (status.ok() && line->front() == '/') {
      if (!chat.command(*line)) break;
      continue;
    }
    if (status.ok()) status = chat.answer(*line);
    if (!status.ok()) std::cerr << "forerun: " << status.message() << std::endl;
  }
  if (is_terminal(stdin) && !history.empty()) write_history(history.c_str());
  return Status();
}

}  // namespace

Command add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk to a model through its own chat template");
  auto flags = std::make_shared<ChatFlags>();
  add_engine_flags(*command, flags->engine);
  add_sampling_flags(*command, flags->sampling);
  command->add_option("--system", flags->system, "System message");
  command->add_option("-n,--max-tokens", flags->max_tokens, "Most tokens an answer")
      ->capture_default_str();
  command->add_flag("--show-tree", flags->show_tree, "Show accepted and rejected drafts");
  command->add_flag("--compare", flags->compare,
                    "Decode each answer plainly too and compare speed and tokens");
  command->footer(
      "Example:\n  forerun chat --model Qwen/Qwen2.5-1.5B-Instruct --draft "
      "Qwen/Qwen2.5-0.5B-Instruct");
  return {command, [flags] { return run_chat(*flags); }};
}

}  // namespace forerun::app
