// Measures views of the KV cache on real texts: the acceptance rate of drafts through each view, by
// budget and γ, and the time of their Steps compared with plain decoding, one request at a time.
//
//   measure_views --model DIR --tasks needle.jsonl,war-and-peace.jsonl --views streaming_llm,snapkv
//
// Tasks are those of workloads/long_context.py. A task with an expected continuation counts only if
// the model continues it for at least 80% with all of its KV, and StreamingLLM's guesses at γ = 1
// are accepted at most 40% of the time: otherwise it does not distinguish views, and the table says
// so.
//
// Columns are those of MagicDec's tables: α, the share of accepted guesses; Ω, tokens per round;
// milliseconds of the draft Steps of a round (γT_D, selection included), of a verification (T_V),
// of a plain Step (T_AR); of a token with speculation (T_SD); x, T_AR over T_SD.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "forerun/engine.h"
#include "runner/machine.h"
#include "runner/record_rows.h"

namespace forerun {
namespace {

constexpr double kMinContinued = 0.8;
constexpr double kMaxGuessed = 0.4;

struct Arguments {
  std::string model, json;
  std::vector<std::string> tasks;
  std::vector<std::string> views;  // empty: all
  std::vector<int32_t> budgets = {256, 512, 1024};
  std::vector<int32_t> depths = {1, 4};
  int32_t tokens = 64;
  int32_t limit = 0;
  float temperature = 0.0f;
};

struct Task {
  std::string prompt;
  std::string expected;  // empty: no expectation
};

struct Measured {
  std::vector<int32_t> tokens;
  std::string text;
  RequestStats stats;
  double draft_s = 0.0, verify_s = 0.0;  // sums over all Steps
  int64_t verifications = 0;
};

Result<std::vector<Task>> read_tasks(const std::string& path, int32_t limit) {
  std::ifstream file(path);
  if (!file) return Status(StatusCode::kNotFound, "--tasks: cannot read '" + path + "'");
  std::vector<Task> tasks;
  for (std::string line; std::getline(file, line);) {
    if (limit > 0 && static_cast<int32_t>(tasks.size()) == limit) break;
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("prompt") || !json["prompt"].is_string()) {
      return Status(
          StatusCode::kInvalidArgument,
          path + ":" + std::to_string(tasks.size() + 1) +
              ": found a line of another kind; accepted: a JSON object with \"prompt\" (a string)");
    }
    tasks.push_back({json["prompt"], json.value("expected", "")});
  }
  if (tasks.empty()) return Status(StatusCode::kInvalidArgument, path + ": holds no task");
  return tasks;
}

// Returns the share of the expected words with which the text begins.
double continued(const std::string& text, const std::string& expected) {
  std::istringstream found(text), wanted(expected);
  int32_t same = 0, all = 0;
  bool goes_on = true;
  for (std::string word, want; wanted >> want; ++all) {
    goes_on = goes_on && (found >> word) && word == want;
    same += goes_on ? 1 : 0;
  }
  return all > 0 ? static_cast<double>(same) / all : 0.0;
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : arguments_(arguments) {}
  Status load() {
    EngineOptions options;
    options.model = arguments_.model;
    options.trace = true;
    options.kv_memory_bytes = int64_t{1} << 29;
    FORERUN_ASSIGN_OR_RETURN(engine_, Engine::create(options));
    return {};
  }

  // Shares the prompt's KV with the last request that had it.
  Result<Measured> run(const Task& task, const SpeculationOptions& speculation) {
    Request request;
    request.prompt = task.prompt;
    request.sampling.temperature = arguments_.temperature;
    request.sampling.seed = 1;
    request.max_new_tokens = arguments_.tokens;
    if (!task.expected.empty()) {
      FORERUN_ASSIGN_OR_RETURN(const auto wanted, engine_->tokenize(task.expected, false));
      request.max_new_tokens =
          std::min(request.max_new_tokens, static_cast<int32_t>(wanted.size()));
    }
    request.ignore_eos = true;
    request.speculation = speculation;
    engine_->take_trace();
    FORERUN_ASSIGN_OR_RETURN(const auto stream, engine_->submit(std::move(request)));
    Measured measured;
    while (std::optional<Event> event = stream->next()) {
      measured.tokens.insert(measured.tokens.end(), event->tokens.begin(), event->tokens.end());
      measured.text += event->text;
      if (!event->finished) continue;
      if (event->reason == FinishReason::kError) return event->error;
      measured.stats = std::move(event->stats);
    }
    add_times(speculation.draft_depth.value_or(0), measured);
    return measured;
  }

 private:
  // Adds the times of Steps. A draft is a row, or a row after the observers that select for it;
  // shorter verifications, at the end of the text, are skipped.
  void add_times(int32_t depth, Measured& measured) {
    for (const TraceStep& step : engine_->take_trace().steps) {
      const double seconds = 1e-9 * static_cast<double>(step.end_ns - step.start_ns);
      if (step.rows == depth + 1) {
        measured.verify_s += seconds;
        ++measured.verifications;
      } else if (step.rows == 1 || step.rows == 33) {
        measured.draft_s += seconds;
      }
    }
  }

  const Arguments arguments_;
  std::unique_ptr<Engine> engine_;
};

struct Row {
  std::string task, view;
  int32_t budget = 0, depth = 0;
  double prompt_tokens = 0, drafted = 0, accepted = 0, tokens = 0, rounds = 0;
  double draft_s = 0, verify_s = 0, verifications = 0, decode_s = 0;
  int32_t identical = 0, prompts = 0;

  void add(const Measured& measured, const Measured& plain) {
    const RequestStats& stats = measured.stats;
    prompt_tokens += stats.prompt_tokens;
    drafted += static_cast<double>(stats.drafted_tokens);
    accepted += static_cast<double>(stats.accepted_tokens);
    tokens += stats.output_tokens - 1;
    rounds += static_cast<double>(stats.target_steps);
    draft_s += measured.draft_s;
    verify_s += measured.verify_s;
    verifications += static_cast<double>(measured.verifications);
    decode_s += stats.decode_s;
    identical += measured.tokens == plain.tokens ? 1 : 0;
    ++prompts;
  }
  double acceptance() const { return drafted > 0 ? accepted / drafted : 0.0; }
  double token_ms() const { return tokens > 0 ? 1e3 * decode_s / tokens : 0.0; }
  double draft_ms() const { return rounds > 0 ? 1e3 * draft_s / rounds : 0.0; }
  double verify_ms() const { return verifications > 0 ? 1e3 * verify_s / verifications : 0.0; }
  double tokens_a_round() const { return rounds > 0 ? tokens / rounds : 0.0; }
};

void print(const Row& row, const Row& plain) {
  std::printf("%-16s %-14s %5d %2d %6.1f%% %5.2f %8.2f %8.2f %8.2f %8.2f %5.2f %d/%d\n",
              row.task.c_str(), row.view.c_str(), row.budget, row.depth, 100.0 * row.acceptance(),
              row.tokens_a_round(), row.draft_ms(), row.verify_ms(), plain.token_ms(),
              row.token_ms(), plain.token_ms() / row.token_ms(), row.identical, row.prompts);
  std::fflush(stdout);
}

nlohmann::ordered_json json_of(const Row& row, const Row& plain) {
  return {{"view", row.view},
          {"budget", row.budget},
          {"gamma", row.depth},
          {"prompt_tokens", row.prompt_tokens / row.prompts},
          {"acceptance", row.acceptance()},
          {"tokens_a_round", row.tokens_a_round()},
          {"draft_ms_a_round", row.draft_ms()},
          {"verify_ms", row.verify_ms()},
          {"plain_ms", plain.token_ms()},
          {"token_ms", row.token_ms()},
          {"speed_up", plain.token_ms() / row.token_ms()},
          {"identical", row.identical},
          {"prompts", row.prompts}};
}

Status measure_tasks(Bench& bench, const Arguments& arguments, const std::string& path,
                     nlohmann::ordered_json& json) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<Task> tasks, read_tasks(path, arguments.limit));
  const size_t slash = path.find_last_of('/') + 1;
  const std::string name = path.substr(slash, path.find('.', slash) - slash);
  std::vector<Row> rows;
  for (const std::string& view : arguments.views) {
    for (const int32_t budget : arguments.budgets) {
      for (const int32_t depth : arguments.depths) {
        rows.push_back({.task = name, .view = view, .budget = budget, .depth = depth});
      }
    }
  }
  Row plain_row{.task = name, .view = "-"};
  double share = 0.0;
  for (const Task& task : tasks) {
    const SpeculationOptions plainly{.strategy = "autoregressive"};
    FORERUN_ASSIGN_OR_RETURN(const Measured plain, bench.run(task, plainly));
    plain_row.add(plain, plain);
    share += continued(plain.text, task.expected) / static_cast<double>(tasks.size());
    for (Row& row : rows) {
      SpeculationOptions options{.strategy = "sparse_self", .draft_depth = row.depth};
      options.view = row.view;
      options.view_budget = row.budget;
      FORERUN_ASSIGN_OR_RETURN(const Measured measured, bench.run(task, options));
      row.add(measured, plain);
    }
  }
  std::printf("%s: %zu prompts of %.0f tokens\n", name.c_str(), tasks.size(),
              plain_row.prompt_tokens / plain_row.prompts);
  for (const Row& row : rows) {
    print(row, plain_row);
    json["tasks"][name]["rows"].push_back(json_of(row, plain_row));
  }
  if (tasks.front().expected.empty()) return {};
  double guessed = 0.0;
  for (const Row& row : rows) {
    if (row.view == "streaming_llm" && row.depth == 1)
      guessed = std::max(guessed, row.acceptance());
  }
  const bool valid = share >= kMinContinued && guessed <= kMaxGuessed;
  std::printf(
      "%s: all of the KV continues %.0f%% (needs %.0f%%), StreamingLLM guesses %.0f%% "
      "(at most %.0f%%): %s\n",
      name.c_str(), 100.0 * share, 100.0 * kMinContinued, 100.0 * guessed, 100.0 * kMaxGuessed,
      valid ? "tells views apart" : "not valid for this model");
  json["tasks"][name]["continued"] = share;
  json["tasks"][name]["guessed_by_streaming_llm"] = guessed;
  json["tasks"][name]["valid"] = valid;
  return {};
}

Status run(Arguments arguments) {
  if (arguments.views.empty()) {
    for (const OptionChoice& view : kv_view_choices()) arguments.views.push_back(view.name);
  }
  Bench bench(arguments);
  FORERUN_RETURN_IF_ERROR(bench.load());
  const bench::MachineFacts machine = bench::machine_facts();
  nlohmann::ordered_json json = {
      {"machine", {{"processor", machine.processor}, {"cores", machine.cores}}},
      {"date", machine.date},
      {"commit", machine.commit},
      {"model", arguments.model},
      {"temperature", arguments.temperature},
      {"tokens", arguments.tokens}};
  std::printf("%-16s %-14s %5s %2s %7s %5s %8s %8s %8s %8s %5s %s\n", "task", "view", "K", "γ", "α",
              "Ω", "γT_D ms", "T_V", "T_AR", "T_SD", "x", "identical");
  for (const std::string& path : arguments.tasks) {
    FORERUN_RETURN_IF_ERROR(measure_tasks(bench, arguments, path, json));
  }
  return bench::record_rows(json, arguments.json);
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::Arguments arguments;
  CLI::App app("How often drafts through views of the KV are right, and what they cost");
  app.add_option("--model", arguments.model, "Checkpoint")->required();
  app.add_option("--tasks", arguments.tasks, "JSON lines of workloads/long_context.py")
      ->delimiter(',')
      ->required();
  app.add_option("--views", arguments.views, "Default: all there are")->delimiter(',');
  app.add_option("--budgets", arguments.budgets, "K")->delimiter(',')->capture_default_str();
  app.add_option("--depths", arguments.depths, "γ")->delimiter(',')->capture_default_str();
  app.add_option("--tokens", arguments.tokens, "Of each text")->capture_default_str();
  app.add_option("--limit", arguments.limit, "Prompts of each file; 0: all")->capture_default_str();
  app.add_option("--temperature", arguments.temperature)->capture_default_str();
  app.add_option("--json", arguments.json, "Write the results to this file too");
  CLI11_PARSE(app, argc, argv);
  const forerun::Status status = forerun::run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "measure_views: %s\n", status.message().c_str());
  return 1;
}
