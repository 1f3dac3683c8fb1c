#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "bench_report.h"
#include "commands.h"
#include "completion_json.h"
#include "flags.h"
#include "interrupt.h"
#include "launch.h"
#include "output.h"
#include "run_request.h"
#include "runner/load.h"
#include "runner/long_prompt.h"
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
  std::optional<int> repeats;  // default: 3, or 1 with concurrent requests
  int32_t max_tokens = 128;
  bool reuse_prompts = false;
  std::string json_path;

  // Options of concurrent requests.
  std::optional<int> requests;
  std::vector<int> concurrencies;
  std::optional<std::string> arrivals;
  std::optional<int32_t> prompt_tokens;
  std::optional<int32_t> long_prompt;
  bool compare = false;
  bool host_time = false;
  bool is_load() const { return requests || !concurrencies.empty(); }
};

using Table = std::vector<std::vector<std::string>>;

std::string stem_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name.substr(0, name.find('.'));
}

// The upper limit of every count of this command: a run with more would never end.
constexpr int64_t kMaxCounted = 1'000'000;

Status in_range(const char* flag, int64_t value, int64_t min_value) {
  if (value >= min_value && value <= kMaxCounted) return Status();
  return Status(StatusCode::kInvalidArgument,
                std::string(flag) + ": found " + std::to_string(value) + "; accepted: " +
                    std::to_string(min_value) + " to " + std::to_string(kMaxCounted));
}

// Makes all checks that do not need the models.
Status check(const BenchFlags& flags) {
  FORERUN_RETURN_IF_ERROR(in_range("--limit", flags.limit, 0));
  FORERUN_RETURN_IF_ERROR(in_range("--warmup", flags.warmups, 0));
  FORERUN_RETURN_IF_ERROR(in_range("--requests", flags.requests.value_or(1), 1));
  FORERUN_RETURN_IF_ERROR(in_range("--repeat", flags.repeats.value_or(1), 1));
  FORERUN_RETURN_IF_ERROR(in_range("--max-tokens", flags.max_tokens, 1));
  FORERUN_RETURN_IF_ERROR(in_range("--prompt-tokens", flags.prompt_tokens.value_or(1), 1));
  FORERUN_RETURN_IF_ERROR(in_range("--long-prompt", flags.long_prompt.value_or(1), 1));
  for (const int concurrency : flags.concurrencies) {
    FORERUN_RETURN_IF_ERROR(in_range("--concurrency", concurrency, 1));
  }
  if (flags.arrivals) {
    const auto parsed = bench::parse_arrivals(*flags.arrivals);
    if (!parsed.ok()) {
      return Status(parsed.status().code(), "--" + parsed.status().message());
    }
  }
  const std::pair<const char*, bool> only_with_many[] = {
      {"--arrivals", flags.arrivals.has_value()},
      {"--prompt-tokens", flags.prompt_tokens.has_value()},
      {"--long-prompt", flags.long_prompt.has_value()},
      {"--compare", flags.compare},
      {"--host-time", flags.host_time}};
  for (const auto& [flag, given] : only_with_many) {
    if (!given || flags.is_load()) continue;
    return Status(StatusCode::kInvalidArgument,
                  std::string(flag) +
                      ": found without --requests and --concurrency; accepted: with one of them");
  }
  if (flags.long_prompt && !flags.requests) {
    return Status(StatusCode::kInvalidArgument,
                  "--long-prompt: found without --requests; accepted: with --requests N");
  }
  if (flags.long_prompt && (!flags.concurrencies.empty() || flags.arrivals)) {
    return Status(StatusCode::kInvalidArgument,
                  std::string("--long-prompt: found together with ") +
                      (flags.arrivals ? "--arrivals" : "--concurrency") +
                      "; accepted: with --requests N alone");
  }
  if (flags.long_prompt && flags.prompt_files.size() > 1) {
    return Status(StatusCode::kInvalidArgument, "--long-prompt: found " +
                                                    std::to_string(flags.prompt_files.size()) +
                                                    " files of --prompts; accepted: one");
  }
  return Status();
}

bench::RunnerOptions one_by_one_options(const BenchFlags& flags, const SamplingOptions& sampling,
                                        std::vector<std::string> prompts) {
  bench::RunnerOptions options;
  options.prompts = std::move(prompts);
  options.sampling = sampling;
  options.speculation = flags.engine.speculation;
  options.strategies = flags.strategies;
  options.temperatures = flags.temperatures;
  options.max_new_tokens = flags.max_tokens;
  options.warmups = flags.warmups;
  options.repeats = flags.repeats.value_or(3);
  options.first_seed = flags.sampling.seed;
  options.reuse_prompts = flags.reuse_prompts;
  return options;
}

int max_requests(const BenchFlags& flags) {
  if (flags.requests) return *flags.requests;
  return *std::max_element(flags.concurrencies.begin(), flags.concurrencies.end());
}

// Prompts of a given length are made before the first is sent.
Status check_prompt_memory(const BenchFlags& flags) {
  constexpr int64_t kMaxTokens = int64_t{1} << 28;
  const int64_t tokens = int64_t{max_requests(flags)} * flags.prompt_tokens.value_or(0);
  if (tokens <= kMaxTokens) return Status();
  return Status(StatusCode::kInvalidArgument, "--prompt-tokens: found " + std::to_string(tokens) +
                                                  " tokens in all prompts; accepted: up to " +
                                                  std::to_string(kMaxTokens));
}

Result<bench::LoadOptions> load_options(const BenchFlags& flags, const SamplingOptions& sampling,
                                        const std::vector<std::string>& prompts,
                                        const Engine& engine) {
  bench::LoadOptions options;
  for (const std::string& prompt : prompts) {
    // Prompts of a given length are cut out of the texts, so they must not contain a begin token.
    FORERUN_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                             engine.tokenize(prompt, !flags.prompt_tokens));
    if (!tokens.empty()) options.prompts.push_back(std::move(tokens));
  }
  if (options.prompts.empty()) {
    return Status(StatusCode::kInvalidArgument, "--prompts: found only empty prompts");
  }
  if (flags.prompt_tokens) {
    options.prompts =
        bench::prompts_of_length(options.prompts, max_requests(flags), *flags.prompt_tokens);
  }
  options.sampling = sampling;
  options.speculation = flags.engine.speculation;
  options.strategies = flags.strategies;
  options.temperatures = flags.temperatures;
  options.first_seed = flags.sampling.seed;
  options.max_new_tokens = flags.max_tokens;
  options.warmups = flags.warmups;
  options.repeats = flags.repeats.value_or(1);
  options.reuse_prompts = flags.reuse_prompts;
  options.requests = flags.requests.value_or(0);
  if (!flags.concurrencies.empty()) options.concurrencies = flags.concurrencies;
  if (flags.arrivals) {
    FORERUN_ASSIGN_OR_RETURN(options.arrivals, bench::parse_arrivals(*flags.arrivals));
  }
  options.compare = flags.compare;
  options.host_time = flags.host_time;
  options.stop = &InterruptGuard::interrupted;
  return options;
}

// Measures the rows of one file of prompts.
Status measure(const BenchFlags& flags, const std::string& file, Engine& engine,
               nlohmann::ordered_json* json, Table* table) {
  FORERUN_ASSIGN_OR_RETURN(const SamplingOptions sampling, sampling_options(flags.sampling));
  FORERUN_ASSIGN_OR_RETURN(std::vector<std::string> prompts,
                           bench::read_prompts(file, flags.limit));
  const std::string workload = stem_of(file);
  ProgressBar bar;
  const auto on_progress = [&](int done, int total) {
    bar.update(workload, static_cast<double>(done) / total);
  };
  const auto add = [&](const auto& rows) {
    for (const auto& row : rows) {
      (*json)[workload].push_back(row_json(row));
      table->push_back(row_cells(workload, row));
    }
  };
  if (!flags.is_load()) {
    bench::RunnerOptions options = one_by_one_options(flags, sampling, std::move(prompts));
    options.on_progress = on_progress;
    options.stop = &InterruptGuard::interrupted;
    FORERUN_ASSIGN_OR_RETURN(const std::vector<bench::RunnerRow> rows, bench::run(engine, options));
    add(rows);
    return Status();
  }
  FORERUN_ASSIGN_OR_RETURN(bench::LoadOptions options,
                           load_options(flags, sampling, prompts, engine));
  options.on_progress = on_progress;
  FORERUN_ASSIGN_OR_RETURN(const std::vector<bench::LoadRow> rows,
                           bench::run_load(engine, options));
  add(rows);
  return Status();
}

// Measures the scenario of --long-prompt, and the time to destroy the engine in the middle of it.
Status measure_long_prompt(const BenchFlags& flags, std::unique_ptr<Engine> engine,
                           nlohmann::ordered_json* json, Table* table) {
  FORERUN_ASSIGN_OR_RETURN(const SamplingOptions sampling, sampling_options(flags.sampling));
  const std::string& file = flags.prompt_files.front();
  FORERUN_ASSIGN_OR_RETURN(const std::vector<std::string> prompts,
                           bench::read_prompts(file, flags.limit));
  FORERUN_ASSIGN_OR_RETURN(const bench::LoadOptions options,
                           load_options(flags, sampling, prompts, *engine));
  const std::vector<int32_t> long_prompt =
      bench::prompts_of_length(options.prompts, 1, *flags.long_prompt).front();
  FORERUN_ASSIGN_OR_RETURN(const std::vector<bench::LongPromptRow> rows,
                           bench::run_long_prompt(*engine, options, long_prompt));
  for (const bench::LongPromptRow& row : rows) {
    (*json)["workloads"][stem_of(file)].push_back(row_json(row));
    table->push_back(row_cells(stem_of(file), row));
  }
  FORERUN_RETURN_IF_ERROR(InterruptGuard::status());
  FORERUN_ASSIGN_OR_RETURN(const double destroy_s,
                           bench::seconds_to_destroy(std::move(engine), options, long_prompt,
                                                     rows.front().first_token_s / 3));
  (*json)["destroy_ms"] = 1000.0 * destroy_s;
  return Status();
}

// Returns the table without columns that are empty in every row.
Table without_empty_columns(const Table& table) {
  Table kept(table.size());
  for (size_t column = 0; column < table.front().size(); ++column) {
    const bool empty =
        table.size() > 1 &&
        std::all_of(table.begin() + 1, table.end(), [&](auto& row) { return row[column] == "-"; });
    if (empty) continue;
    for (size_t row_idx = 0; row_idx < table.size(); ++row_idx) {
      kept[row_idx].push_back(table[row_idx][column]);
    }
  }
  return kept;
}

Status write_json(const std::string& path, const nlohmann::ordered_json& json) {
  return path.empty() ? Status() : write_output("--json", path, json_text(json));
}

// Called after the report of `rows` rows. `measured`: kCancelled if a signal ended it early.
Status finish(const BenchFlags& flags, const Status& measured, size_t rows,
              nlohmann::ordered_json* json) {
  std::cout << std::flush;
  if (!measured.ok()) {
    (*json)["interrupted"] = true;
    std::cerr << (rows == 0
                      ? "forerun: interrupted before anything was measured\n"
                      : "forerun: interrupted; the figures cover what was measured until then\n");
  }
  FORERUN_RETURN_IF_ERROR(write_json(flags.json_path, *json));
  return measured;
}

Status run_bench(const BenchFlags& flags) {
  FORERUN_RETURN_IF_ERROR(check(flags));
  if (flags.is_load()) FORERUN_RETURN_IF_ERROR(check_prompt_memory(flags));
  EngineOptions engine_options = flags.engine;
  for (const int concurrency : flags.concurrencies) {
    engine_options.max_active_requests =
        std::max(engine_options.max_active_requests, int32_t{concurrency});
  }
  engine_options.trace = flags.host_time;
  FORERUN_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, create_engine(engine_options));
  const InterruptGuard guard;
  const bench::MachineFacts machine = bench::machine_facts();
  nlohmann::ordered_json json = {
      {"machine", {{"processor", machine.processor}, {"cores", machine.cores}}},
      {"date", machine.date},
      {"commit", machine.commit},
      {"model", engine->info().model_name},
      {"numeric_fingerprint", engine->info().numeric_fingerprint}};
  json["seed"] = flags.sampling.seed;
  if (flags.is_load()) {
    json["arrivals"] = flags.arrivals.value_or("all");
    json["max_tokens"] = flags.max_tokens;
  }
  json["workloads"] = nlohmann::ordered_json::object();
  std::ostream& report = flags.json_path == "-" ? std::cerr : std::cout;
  Table table = {flags.long_prompt ? long_prompt_titles()
                 : flags.is_load() ? load_titles()
                                   : one_by_one_titles()};
  if (flags.long_prompt) {
    const Status measured = measure_long_prompt(flags, std::move(engine), &json, &table);
    if (!measured.ok() && measured.code() != StatusCode::kCancelled) return measured;
    report << format_table(table);
    if (measured.ok()) {
      report << "destroying the engine while it reads the long prompt: "
             << format_fixed(json["destroy_ms"], 1) << " ms\n";
    }
    return finish(flags, measured, table.size() - 1, &json);
  }
  for (const std::string& file : flags.prompt_files) {
    if (InterruptGuard::interrupted()) break;
    FORERUN_RETURN_IF_ERROR(measure(flags, file, *engine, &json["workloads"], &table));
  }
  report << engine->info().planner_report << format_table(without_empty_columns(table))
         << describe_emulation(*engine);
  if (!engine->info().emulated.empty()) json["emulated"] = emulation_json(*engine);
  return finish(flags, InterruptGuard::status(), table.size() - 1, &json);
}

void add_load_flags(CLI::App& command, BenchFlags& flags) {
  const std::string group = "Many requests at once";
  command
      .add_option("--requests", flags.requests,
                  "Number of requests; prompts are used in turn, each request has its own seed")
      ->group(group);
  command
      .add_option("--arrivals", flags.arrivals,
                  "all (default), every:SECONDS or poisson:REQUESTS_PER_SECOND")
      ->group(group);
  command
      .add_option(
          "--concurrency", flags.concurrencies,
          "Most requests in flight, one row for each number: 1,4,16,64 (without --requests also "
          "how many there are)")
      ->delimiter(',')
      ->group(group);
  command
      .add_option("--prompt-tokens", flags.prompt_tokens,
                  "Cut or repeat the texts to prompts of this length, all different")
      ->group(group);
  command
      .add_option("--long-prompt", flags.long_prompt,
                  "While --requests decode, a prompt of so many tokens arrives, and again one that "
                  "is cancelled")
      ->group(group);
  command
      .add_flag("--compare", flags.compare,
                "Count the requests with the same tokens as plain decoding")
      ->group(group);
  command
      .add_flag("--host-time", flags.host_time, "The host's CPU time for each result, from a trace")
      ->group(group);
}

}  // namespace

Command add_bench(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure strategies side by side on files of prompts");
  auto flags = std::make_shared<BenchFlags>();
  add_engine_flags(*command, flags->engine);
  add_sampling_flags(*command, flags->sampling);
  command->remove_option(command->get_option("--temperature"));  // --temperatures replaces it
  command
      ->add_option("--prompts", flags->prompt_files,
                   "JSON-lines files with \"prompt\" or \"turns\"")
      ->required();
  command
      ->add_option(
          "--strategies", flags->strategies,
          "The first one is the baseline; each takes what it uses of --source, --shape and so on")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--temperatures", flags->temperatures)->delimiter(',')->capture_default_str();
  command->add_option("--limit", flags->limit, "Prompts of each file; 0 takes all")
      ->capture_default_str();
  command->add_option("--warmup", flags->warmups, "Requests to run before measuring")
      ->capture_default_str();
  command->add_option(
      "--repeat", flags->repeats,
      "Runs of each strategy; the fastest counts (default: 3; 1 of many requests at once)");
  command->add_option("-n,--max-tokens", flags->max_tokens, "Tokens of each request")
      ->capture_default_str();
  command->add_flag("--reuse-prompts", flags->reuse_prompts,
                    "Send every prompt once before measuring, and reuse its KV");
  command->add_option(
      "--json", flags->json_path,
      "Write the results to this file too; - is standard output, the table then goes to stderr");
  add_load_flags(*command, *flags);
  command->footer(
      "Example:\n  forerun bench --model models/demo-target --draft models/demo-draft \\\n"
      "    --prompts bench/workloads/code.jsonl --strategies autoregressive,serial_tree\n"
      "  forerun bench --model models/demo-target --prompts bench/workloads/code.jsonl \\\n"
      "    --requests 16 --arrivals poisson:8 --prompt-tokens 64 --max-tokens 32\n"
      "  forerun bench --model models/demo-target --draft models/demo-draft \\\n"
      "    --prompts bench/workloads/code.jsonl --concurrency 1,4,16 --temperatures 0 --compare "
      "\\\n"
      "    --max-tokens 32");
  return with_hosts(
      command, &flags->engine, [flags] { return run_bench(*flags); },
      [flags] { return flags->host_time; });
}

}  // namespace forerun::app
