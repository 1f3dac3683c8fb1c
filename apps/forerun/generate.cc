#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

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

struct GenerateFlags {
  EngineOptions engine;
  SamplingFlags sampling;
  std::string prompt, prompt_file;
  int32_t max_tokens = 256;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool json = false;
  bool show_tree = false;
  bool compare = false;
  int32_t logprobs = -1;
};

Result<std::string> read_prompt(const GenerateFlags& flags) {
  if (flags.prompt_file.empty()) return flags.prompt;
  return read_text("--prompt-file", flags.prompt_file);
}

nlohmann::ordered_json stats_json(const Completion& completion) {
  const RequestStats& stats = completion.stats;
  nlohmann::ordered_json json;
  json["prompt_tokens"] = stats.prompt_tokens;
  json["tokens"] = completion.tokens;
  json["finish_reason"] = finish_reason_name(completion.reason);
  json["seed"] = stats.seed;
  json["strategy"] = stats.strategy;
  json["tokens_per_s"] = stats.tokens_per_s();
  json["tokens_per_step"] = stats.tokens_per_step();
  json["acceptance"] = stats.acceptance();
  json["drafted_tokens"] = stats.drafted_tokens;
  json["accepted_tokens"] = stats.accepted_tokens;
  json["target_steps"] = stats.target_steps;
  json["draft_steps"] = stats.draft_steps;
  json["target_step_ms"] = 1000.0 * stats.target_step_s;
  json["draft_step_ms"] = 1000.0 * stats.draft_step_s;
  json["preemptions"] = stats.preemptions;
  json["reused_tokens"] = stats.reused_tokens;
  json["draft_reused_tokens"] = stats.draft_reused_tokens;
  json["time_to_first_token_ms"] = 1000.0 * stats.time_to_first_token_s;
  return json;
}

nlohmann::ordered_json logprobs_json(const Engine& engine, const std::vector<TokenLogprob>& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TokenLogprob& entry : all) {
    list.push_back({{"token", entry.token},
                    {"text", engine.detokenize({entry.token})},
                    {"logprob", entry.logprob}});
  }
  return list;
}

void print_json(const Engine& engine, const Completion& completion,
                const std::vector<std::vector<TokenLogprob>>& logprobs,
                const Comparison* comparison) {
  nlohmann::ordered_json json;
  json["text"] = completion.text;
  json.update(stats_json(completion));
  json["numeric_fingerprint"] = engine.info().numeric_fingerprint;
  if (!engine.info().emulated.empty()) {
    const EmulationStats stats = engine.emulation();
    json["emulated"] = {{"profile", engine.info().emulated},
                        {"steps", stats.steps},
                        {"late_steps", stats.late_steps},
                        {"late_ms", 1000.0 * stats.late_seconds}};
  }
  if (!logprobs.empty()) {
    json["logprobs"] = nlohmann::ordered_json::array();
    for (const auto& entry : logprobs) json["logprobs"].push_back(logprobs_json(engine, entry));
  }
  if (comparison != nullptr) {
    json["plain"] = stats_json(comparison->plain);
    json["identical"] = comparison->identical;
  }
  std::cout << json_text(json) << std::flush;
}

Status run_generate(const GenerateFlags& flags) {
  FORERUN_ASSIGN_OR_RETURN(const std::string prompt, read_prompt(flags));
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, create_engine(flags.engine));
  Request request;
  request.prompt = prompt;
  FORERUN_ASSIGN_OR_RETURN(request.sampling, sampling_options(flags.sampling));
  request.sampling.logprobs = flags.logprobs;
  request.max_new_tokens = flags.max_tokens;
  request.stop = flags.stop;
  request.ignore_eos = flags.ignore_eos;
  request.record_rounds = flags.show_tree;

  const bool streams = !flags.json;
  std::vector<std::vector<TokenLogprob>> logprobs;
  if (flags.engine.try_splits) {
    std::cerr << paint(stderr, Colour::kDim, engine->info().planner_report);
  }
  InterruptGuard guard;
  if (streams) std::cout << paint(stdout, Colour::kDim, prompt) << std::flush;
  if (flags.show_tree && streams) std::cout << "\n";
  const auto on_event = [&](const Event& event) {
    logprobs.insert(logprobs.end(), event.logprobs.begin(), event.logprobs.end());
    if (!streams) return;
    if (flags.show_tree) {
      for (const SpeculationRound& round : event.rounds) {
        std::cout << format_round(round, *engine, stdout);
      }
      std::cout << std::flush;
    } else {
      std::cout << event.text << std::flush;
    }
  };
  FORERUN_ASSIGN_OR_RETURN(const Completion completion, run_request(*engine, request, on_event));
  if (flags.show_tree && streams) {
    std::cout << "\n" << paint(stdout, Colour::kDim, prompt) << completion.text;
  }
  if (streams) {
    std::cout << std::endl;
    const std::string seed =
        flags.sampling.random_seed ? ", seed " + std::to_string(completion.stats.seed) : "";
    std::cerr << paint(stderr, Colour::kDim, "— " + describe(completion.stats) + seed) << std::endl;
  }

  std::optional<Comparison> comparison;
  if (flags.compare && !InterruptGuard::interrupted()) {
    FORERUN_ASSIGN_OR_RETURN(comparison, compare_with_plain(*engine, request, completion));
    if (streams) std::cout << "\n" << describe(*comparison) << std::flush;
  }
  if (streams) std::cerr << paint(stderr, Colour::kDim, describe_emulation(*engine));
  if (flags.json) print_json(*engine, completion, logprobs, comparison ? &*comparison : nullptr);
  if (comparison && flags.engine.speculation.accept != "rejection" && !comparison->identical) {
    return Status(StatusCode::kInternal, "speculation changed the output; please report this");
  }
  return InterruptGuard::status();
}

}  // namespace

Command add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text");
  auto flags = std::make_shared<GenerateFlags>();
  add_engine_flags(*command, flags->engine);
  add_sampling_flags(*command, flags->sampling);
  auto* prompt = command->add_option("-p,--prompt", flags->prompt, "The text to continue");
  auto* prompt_file = command->add_option("--prompt-file", flags->prompt_file,
                                          "Read the prompt from a file; - is standard input");
  prompt->excludes(prompt_file);
  command->add_option("-n,--max-tokens", flags->max_tokens, "Most tokens to write")
      ->capture_default_str();
  add_stop_flag(*command, flags->stop);
  command->add_flag("--ignore-eos", flags->ignore_eos, "Do not end at the model's end token");
  command->add_option("--logprobs", flags->logprobs,
                      "With --json: log-probabilities of each token and this many alternatives");
  command->add_flag("--json", flags->json, "Print one JSON object instead of streaming");
  command->add_flag("--show-tree", flags->show_tree, "Show accepted and rejected drafts");
  command->add_flag("--compare", flags->compare,
                    "Decode plainly too: speed of both, and whether the tokens are the same");
  command->footer(
      "Example:\n  forerun generate --model models/demo-target --draft models/demo-draft \\\n"
      "    --prompt 'def fibonacci(n):' --max-tokens 64 --temperature 0.8 --compare");
  return {command, [flags] { return run_generate(*flags); }};
}

}  // namespace forerun::app
