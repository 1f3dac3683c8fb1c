#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "batch.h"
#include "commands.h"
#include "completion_json.h"
#include "flags.h"
#include "interrupt.h"
#include "launch.h"
#include "output.h"
#include "run_request.h"
#include "terminal.h"
#include "text_input.h"
#include "tree_view.h"

namespace forerun::app {
namespace {

struct GenerateFlags {
  EngineOptions engine;
  SamplingFlags sampling;
  std::optional<std::string> prompt;
  std::string prompt_file;
  std::string batch_file;
  int32_t max_tokens = 256;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool json = false;
  bool json_lines = false;
  bool no_echo = false;
  bool show_tree = false;
  bool compare = false;
  int32_t logprobs = -1;
  int32_t prompt_logprobs = -1;
};

// Refuses flags without effect, before any model is loaded.
Status check(const GenerateFlags& flags) {
  const bool as_json = flags.json || flags.json_lines;
  const std::string json_flag = flags.json ? "--json" : "--json-lines";
  const auto refused = [](const std::string& message) {
    return Status(StatusCode::kInvalidArgument, message);
  };
  const int sources = (flags.prompt ? 1 : 0) + (flags.prompt_file.empty() ? 0 : 1) +
                      (flags.batch_file.empty() ? 0 : 1);
  if (sources != 1) {
    return refused("prompt: found " + std::string(sources == 0 ? "none" : "several") +
                   " of --prompt TEXT, --prompt-file FILE (- is standard input) and --batch FILE; "
                   "accepted: exactly one of them");
  }
  if (!flags.batch_file.empty()) {
    const std::pair<const char*, bool> of_one_request[] = {{"--json", flags.json},
                                                           {"--json-lines", flags.json_lines},
                                                           {"--show-tree", flags.show_tree},
                                                           {"--no-echo", flags.no_echo},
                                                           {"--compare", flags.compare}};
    for (const auto& [flag, given] : of_one_request) {
      if (given) {
        return refused(std::string(flag) +
                       ": found together with --batch, which prints a line of JSON a request; "
                       "accepted: one of the two");
      }
    }
    return Status();
  }
  if (flags.json && flags.json_lines) {
    return refused("--json-lines: found together with --json; accepted: one of the two");
  }
  if (flags.logprobs >= 0 && !as_json) {
    return refused(
        "--logprobs: found without --json and --json-lines, which print them; accepted: with one "
        "of them");
  }
  if (flags.prompt_logprobs >= 0 && !as_json) {
    return refused(
        "--prompt-logprobs: found without --json and --json-lines, which print them; accepted: "
        "with one of them");
  }
  if (flags.show_tree && as_json) {
    return refused("--show-tree: found together with " + json_flag +
                   ", which prints no tree; accepted: one of the two");
  }
  if (flags.no_echo && as_json) {
    return refused("--no-echo: found together with " + json_flag +
                   ", which never repeats the prompt; accepted: one of the two");
  }
  if (flags.compare && flags.json_lines) {
    return refused("--compare: found together with --json-lines; accepted: alone or with --json");
  }
  return Status();
}

Result<Request> request_of(const GenerateFlags& flags) {
  Request request;
  request.prompt = flags.prompt.value_or("");
  if (!flags.prompt_file.empty()) {
    FORERUN_ASSIGN_OR_RETURN(request.prompt, read_text("--prompt-file", flags.prompt_file));
  }
  FORERUN_ASSIGN_OR_RETURN(request.sampling, sampling_options(flags.sampling));
  request.sampling.logprobs = flags.logprobs;
  request.sampling.prompt_logprobs = flags.prompt_logprobs;
  request.max_new_tokens = flags.max_tokens;
  request.stop = flags.stop;
  request.ignore_eos = flags.ignore_eos;
  request.record_rounds = flags.show_tree;
  return request;
}

Status check_comparison(const GenerateFlags& flags, const Comparison& comparison) {
  const std::string& accept = flags.engine.speculation.accept;
  if (comparison.identical || !(accept.empty() || accept == "match")) return Status();
  return Status(StatusCode::kInternal, "speculation changed the output; please report this");
}

Status generate_text(const GenerateFlags& flags, Engine& engine, const Request& request) {
  const auto on_accepted = [&] {
    if (!flags.no_echo) std::cout << paint(stdout, Colour::kDim, request.prompt) << std::flush;
    if (flags.show_tree) std::cout << std::endl;
  };
  const auto on_event = [&](const Event& event) {
    if (!flags.show_tree) std::cout << event.text;
    for (const SpeculationRound& round : event.rounds) {
      std::cout << format_round(round, engine, stdout);
    }
    std::cout << std::flush;
  };
  FORERUN_ASSIGN_OR_RETURN(const Completion completion,
                           run_request(engine, request, on_event, on_accepted));
  if (flags.show_tree) {
    const std::string echo = flags.no_echo ? "" : paint(stdout, Colour::kDim, request.prompt);
    std::cout << "\n" << echo << completion.text;
  }
  std::cout << std::endl;
  const std::string seed =
      flags.sampling.random_seed ? ", seed " + std::to_string(completion.stats.seed) : "";
  std::cerr << paint(stderr, Colour::kDim, "— " + describe(completion.stats) + seed) << std::endl;
  Status status;
  if (flags.compare && !InterruptGuard::interrupted()) {
    FORERUN_ASSIGN_OR_RETURN(const Comparison comparison,
                             compare_with_plain(engine, request, completion));
    std::cout << "\n" << describe(comparison, flags.engine.speculation) << std::flush;
    status = check_comparison(flags, comparison);
  }
  std::cerr << paint(stderr, Colour::kDim, describe_emulation(engine));
  return status;
}

Status generate_json(const GenerateFlags& flags, Engine& engine, const Request& request) {
  FORERUN_ASSIGN_OR_RETURN(const Completion completion,
                           run_request(engine, request, [](const Event&) {}));
  nlohmann::ordered_json json = completion_json(engine, completion);
  json["numeric_fingerprint"] = engine.info().numeric_fingerprint;
  if (!engine.info().emulated.empty()) json["emulated"] = emulation_json(engine);
  Status status;
  if (flags.compare && !InterruptGuard::interrupted()) {
    FORERUN_ASSIGN_OR_RETURN(const Comparison comparison,
                             compare_with_plain(engine, request, completion));
    json["plain"] = facts_json(comparison.plain.reason, comparison.plain.stats);
    json["plain"]["tokens"] = comparison.plain.tokens;
    json["identical"] = comparison.identical;
    status = check_comparison(flags, comparison);
  }
  std::cout << json_text(json) << std::flush;
  return status;
}

// Prints a line for each event as it arrives; the last line has the finish reason.
Status generate_json_lines(Engine& engine, const Request& request) {
  const auto on_event = [&](const Event& event) {
    const bool is_scored = !event.prompt_logprobs.empty();
    if (event.tokens.empty() && event.text.empty() && !is_scored) return;
    nlohmann::ordered_json line = {{"text", event.text}, {"tokens", event.tokens}};
    if (is_scored) line["prompt_logprobs"] = logprobs_json(engine, event.prompt_logprobs);
    if (!event.logprobs.empty()) line["logprobs"] = logprobs_json(engine, event.logprobs);
    std::cout << json_line(line) << std::flush;
  };
  FORERUN_ASSIGN_OR_RETURN(const Completion completion, run_request(engine, request, on_event));
  nlohmann::ordered_json line = facts_json(completion.reason, completion.stats);
  line["numeric_fingerprint"] = engine.info().numeric_fingerprint;
  std::cout << json_line(line) << std::flush;
  return Status();
}

Status run_generate(const GenerateFlags& flags) {
  FORERUN_RETURN_IF_ERROR(check(flags));
  FORERUN_ASSIGN_OR_RETURN(const Request request, request_of(flags));
  std::vector<BatchRequest> batch;
  if (!flags.batch_file.empty()) {
    FORERUN_ASSIGN_OR_RETURN(batch, read_batch(flags.batch_file, request));
  }
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, create_engine(flags.engine));
  if (flags.engine.try_splits) {
    std::cerr << paint(stderr, Colour::kDim, engine->info().planner_report);
  }
  InterruptGuard guard;
  if (!batch.empty()) return run_batch(*engine, std::move(batch));
  const Status status = flags.json         ? generate_json(flags, *engine, request)
                        : flags.json_lines ? generate_json_lines(*engine, request)
                                           : generate_text(flags, *engine, request);
  return status.ok() ? InterruptGuard::status() : status;
}

}  // namespace

Command add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text");
  auto flags = std::make_shared<GenerateFlags>();
  add_engine_flags(*command, flags->engine);
  add_sampling_flags(*command, flags->sampling);
  command->add_option("-p,--prompt", flags->prompt, "The text to continue");
  command->add_option("--prompt-file", flags->prompt_file,
                      "Read the prompt from a file; - is standard input");
  command->add_option(
      "--batch", flags->batch_file,
      "Run a file of requests concurrently, a JSON object a line with \"prompt\" or "
      "\"messages\" and, optionally, \"id\", \"max_tokens\", \"seed\", \"stop\" and the "
      "numbers of sampling, such as \"top_p\"; results come as JSON lines in the same "
      "order");
  command->add_option("-n,--max-tokens", flags->max_tokens, "Most tokens to write")
      ->capture_default_str();
  add_stop_flag(*command, flags->stop);
  command->add_flag("--ignore-eos", flags->ignore_eos, "Do not end at the model's end token");
  command->add_flag("--no-echo", flags->no_echo, "Print the completion alone, not the prompt");
  command->add_option("--logprobs", flags->logprobs,
                      "With --json: log-probabilities of each token and this many alternatives");
  command->add_option("--prompt-logprobs", flags->prompt_logprobs,
                      "With --json: the same for each token of the prompt but the first; with "
                      "--max-tokens 0 nothing is generated");
  command->add_flag("--json", flags->json, "Print one JSON object instead of streaming");
  command->add_flag("--json-lines", flags->json_lines,
                    "Stream JSON, a line an event; the last line says how it ended");
  command->add_flag("--show-tree", flags->show_tree, "Show accepted and rejected drafts");
  command->add_flag("--compare", flags->compare,
                    "Decode plainly too: speed of both, and whether the tokens are the same");
  command->footer(
      "Example:\n  forerun generate --model models/demo-target --draft models/demo-draft \\\n"
      "    --prompt 'def fibonacci(n):' --max-tokens 64 --temperature 0.8 --compare\n"
      "  forerun generate --model models/demo-target --batch examples/requests.jsonl");
  return with_hosts(command, &flags->engine, [flags] { return run_generate(*flags); });
}

}  // namespace forerun::app
