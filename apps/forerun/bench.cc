#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "run_request.h"
#include "runner/machine.h"
#include "runner/runner.h"
#include "runner/workload.h"
#include "terminal.h"

namespace forerun::app {
namespace {

struct BenchFlags {
  EngineOptions engine;
  SamplingFlags sampling;
  std::vector<std::string> prompt_files;
  std::vector<std::string> strategies = {"autoregressive", "auto"};
  std::vector<float> temperatures = {0.0f, 0.8f};
  int limit = 8;
  int warmups = 2;
  int repeats = 3;
  int32_t max_tokens = 128;
  bool reuse_prompts = false;
  std::string json_path;
};

nlohmann::ordered_json row_json(const bench::RunnerRow& row) {
  return {{"strategy", row.strategy},
          {"temperature", row.temperature},
          {"tokens_per_s", row.tokens_per_s},
          {"tokens_per_step", row.tokens_per_step},
          {"acceptance", row.acceptance},
          {"draft_steps_per_step", row.draft_steps_per_step},
          {"step_ms", row.step_ms},
          {"target_ms", row.target_ms},
          {"draft_ms", row.draft_ms},
          {"time_to_first_token_ms", row.time_to_first_token_ms},
          {"speed_up", row.ratio_to_baseline},
          {"speed_up_worst_prompt", row.ratio_worst},
          {"identical", row.identical},
          {"prompts", row.prompts}};
}

std::vector<std::string> row_cells(const std::string& workload, const bench::RunnerRow& row) {
  return {workload,
          row.strategy,
          format_fixed(row.temperature, 1),
          format_fixed(row.tokens_per_s, 1),
          format_fixed(row.step_ms, 2),
          format_fixed(row.target_ms, 2),
          row.draft_ms > 0 ? format_fixed(row.draft_ms, 2) : "-",
          format_fixed(row.tokens_per_step, 2),
          row.acceptance > 0 ? format_fixed(100.0 * row.acceptance, 0) + "%" : "-",
          format_fixed(row.time_to_first_token_ms, 1),
          format_fixed(row.ratio_to_baseline, 2) + "x",
          format_fixed(row.ratio_worst, 2) + "x",
          std::to_string(row.identical) + "/" + std::to_string(row.prompts)};
}

std::string stem_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name.substr(0, name.find('.'));
}

Status run_bench(const BenchFlags& flags) {
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, create_engine(flags.engine));
  bench::RunnerOptions options;
  FORERUN_ASSIGN_OR_RETURN(options.sampling, resolve_sampling(flags.sampling, engine->info()));
  options.speculation = flags.engine.speculation;
  options.strategies = flags.strategies;
  options.temperatures = flags.temperatures;
  options.max_new_tokens = flags.max_tokens;
  options.warmups = flags.warmups;
  options.repeats = flags.repeats;
  options.first_seed = flags.sampling.seed;
  options.reuse_prompts = flags.reuse_prompts;

  const bench::MachineFacts machine = bench::machine_facts();
  nlohmann::ordered_json json = {
      {"machine", {{"processor", machine.processor}, {"cores", machine.cores}}},
      {"date", machine.date},
      {"commit", machine.commit},
      {"model", engine->info().model_name},
      {"numeric_fingerprint", engine->info().numeric_fingerprint},
      {"workloads", nlohmann::ordered_json::object()}};
  std::vector<std::vector<std::string>> table = {
      {"prompts", "strategy", "temp", "tokens/s", "step ms", "target ms", "draft ms", "tokens/step",
       "accepted", "first ms", "speed-up", "worst", "identical"}};
  for (const std::string& file : flags.prompt_files) {
    FORERUN_ASSIGN_OR_RETURN(options.prompts, bench::read_prompts(file, flags.limit));
    ProgressBar bar;
    options.on_progress = [&](int done, int total) {
      bar.update(stem_of(file), static_cast<double>(done) / total);
    };
    FORERUN_ASSIGN_OR_RETURN(const std::vector<bench::RunnerRow> rows,
                             bench::run(*engine, options));
    for (const bench::RunnerRow& row : rows) {
      json["workloads"][stem_of(file)].push_back(row_json(row));
      table.push_back(row_cells(stem_of(file), row));
    }
  }
  std::cout << engine->info().planner_report << format_table(table) << describe_emulation(*engine)
            << std::flush;
  if (!engine->info().emulated.empty()) {
    const EmulationStats stats = engine->emulation();
    json["emulated"] = {{"profile", engine->info().emulated},
                        {"steps", stats.steps},
                        {"late_steps", stats.late_steps},
                        {"late_ms", 1000.0 * stats.late_seconds}};
  }
  if (flags.json_path.empty()) return Status();
  std::ofstream out(flags.json_path);
  out << json.dump(2) << '\n';
  if (!out) {
    return Status(StatusCode::kInvalidArgument, "--json: cannot write '" + flags.json_path + "'");
  }
  return Status();
}

}  // namespace

Command add_bench(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure strategies side by side on files of prompts");
  auto flags = std::make_shared<BenchFlags>();
  add_engine_flags(*command, flags->engine);
  add_sampling_flags(*command, flags->sampling);
  command->get_option("--temperature")->group("");  // --temperatures takes its place
  command
      ->add_option("--prompts", flags->prompt_files,
                   "JSON-lines files with \"prompt\" or \"turns\"")
      ->required();
  command->add_option("--strategies", flags->strategies, "The first one is the baseline")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--temperatures", flags->temperatures)->delimiter(',')->capture_default_str();
  command->add_option("--limit", flags->limit, "Prompts of each file; 0 takes all")
      ->capture_default_str();
  command->add_option("--warmup", flags->warmups, "Requests before anything counts")
      ->capture_default_str();
  command->add_option("--repeat", flags->repeats, "Runs of each; the fastest counts")
      ->capture_default_str();
  command->add_option("-n,--max-tokens", flags->max_tokens, "Tokens a request")
      ->capture_default_str();
  command->add_flag("--reuse-prompts", flags->reuse_prompts,
                    "Send every prompt once before it counts, and share its KV");
  command->add_option("--json", flags->json_path, "Write the results to this file too");
  command->footer(
      "Example:\n  forerun bench --model models/demo-target --draft models/demo-draft \\\n"
      "    --prompts bench/workloads/code.jsonl --strategies autoregressive,serial_tree");
  return {command, [flags] { return run_bench(*flags); }};
}

}  // namespace forerun::app
