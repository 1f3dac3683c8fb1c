// Compares settings of speculation on one engine. The same prompts are read once; then settings
// decode after them, interleaved: in every round each setting decodes the same requests, in an
// order that rotates, and the next round has other seeds. So a drift of the machine's speed affects
// settings equally, and each round compares them on equal text. `forerun bench` compares strategies
// with one set of options; here settings may differ in any option, such as a hierarchy and its
// halves.
//
//   measure_settings --model DIR --draft DIR --prompts FILE.jsonl --prompt-tokens 7552
//     --setting strategy=autoregressive --setting strategy=sparse_self,draft_depth=4
//     --setting strategy=sparse_self,source=suffix,draft_depth=8,draft_width=4
//
// The first setting is the baseline. The median over the rounds counts; the rates of all rounds are
// recorded in order.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "forerun/engine.h"
#include "runner/load.h"
#include "runner/record_rows.h"
#include "runner/workload.h"

namespace forerun {
namespace {

struct Arguments {
  std::string model, draft, devices, prompts, json;
  std::vector<std::string> settings;
  std::vector<float> temperatures = {0.0f, 0.8f};
  int32_t requests = 16;
  int32_t prompt_tokens = 7552;
  int32_t tokens = 128;
  int32_t repeats = 1;
  double seconds = std::numeric_limits<double>::infinity();
  int64_t kv_memory_bytes = int64_t{3} << 30;
};

Status bad_setting(const std::string& text, const std::string& part) {
  return Status(StatusCode::kInvalidArgument,
                "--setting: found '" + part + "' in '" + text +
                    "'; accepted: strategy, source, shape and view with a name, verify_tokens, "
                    "draft_width, draft_depth and view_budget with a number, joined by ','");
}

// Parses "strategy=sparse_self,source=suffix,draft_depth=8"; the engine checks the names.
Result<SpeculationOptions> parse_setting(const std::string& text) {
  SpeculationOptions options;
  const std::map<std::string, std::string*> names = {{"strategy", &options.strategy},
                                                     {"source", &options.source},
                                                     {"shape", &options.shape},
                                                     {"view", &options.view}};
  const std::map<std::string, std::optional<int32_t>*> numbers = {
      {"verify_tokens", &options.verify_tokens},
      {"draft_width", &options.draft_width},
      {"draft_depth", &options.draft_depth},
      {"view_budget", &options.view_budget}};
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = std::min(part.find('='), part.size());
    const std::string key = part.substr(0, equals);
    const std::string value = part.substr(std::min(equals + 1, part.size()));
    if (const auto name = names.find(key); name != names.end() && !value.empty()) {
      *name->second = value;
    } else if (const auto number = numbers.find(key); number != numbers.end()) {
      int32_t parsed = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
      if (error != std::errc() || end != value.data() + value.size()) {
        return bad_setting(text, part);
      }
      *number->second = parsed;
    } else {
      return bad_setting(text, part);
    }
  }
  return options;
}

struct Measured {
  bench::LoadRow row;
  std::vector<double> rates;  // one per round: tokens per second while all decode

  double rate() const {
    std::vector<double> sorted = rates;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0.0 : sorted[sorted.size() / 2];
  }
};

Status run(const Arguments& arguments) {
  std::vector<SpeculationOptions> settings;
  for (const std::string& text : arguments.settings) {
    FORERUN_ASSIGN_OR_RETURN(SpeculationOptions options, parse_setting(text));
    settings.push_back(std::move(options));
  }
  EngineOptions options;
  options.model = arguments.model;
  options.draft = arguments.draft;
  options.devices = arguments.devices;
  options.kv_memory_bytes = arguments.kv_memory_bytes;
  options.max_active_requests = arguments.requests;
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::create(options));
  bench::LoadOptions load;
  FORERUN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                           bench::read_prompts(arguments.prompts, 0));
  std::vector<std::vector<int32_t>> tokens;
  for (const std::string& text : texts) {
    FORERUN_ASSIGN_OR_RETURN(tokens.emplace_back(), engine->tokenize(text, false));
  }
  load.prompts = bench::prompts_of_length(tokens, arguments.requests, arguments.prompt_tokens);
  load.requests = arguments.requests;
  load.reuse_prompts = true;
  load.warmups = 0;
  const auto measure = [&](const SpeculationOptions& setting, float temperature,
                           int32_t max_tokens) -> Result<bench::LoadRow> {
    load.speculation = setting;
    load.strategies = {setting.strategy};
    load.temperatures = {temperature};
    load.max_new_tokens = max_tokens;
    FORERUN_ASSIGN_OR_RETURN(const std::vector<bench::LoadRow> rows,
                             bench::run_load(*engine, load));
    return rows.front();
  };
  // Reads the prompts.
  FORERUN_RETURN_IF_ERROR(measure({.strategy = "autoregressive"}, 0.0f, 2).status());
  nlohmann::json recorded = nlohmann::json::array();
  for (const float temperature : arguments.temperatures) {
    std::vector<Measured> measured(settings.size());
    const auto begin = std::chrono::steady_clock::now();
    for (int32_t repeat = 0; repeat < arguments.repeats; ++repeat) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      if (repeat > 0 && passed.count() > arguments.seconds) break;
      load.first_seed = static_cast<uint64_t>(repeat) * static_cast<uint64_t>(load.requests);
      for (size_t turn = 0; turn < settings.size(); ++turn) {
        const size_t idx = (turn + static_cast<size_t>(repeat)) % settings.size();
        FORERUN_ASSIGN_OR_RETURN(measured[idx].row,
                                 measure(settings[idx], temperature, arguments.tokens));
        measured[idx].rates.push_back(measured[idx].row.decoding_tokens_per_s.value_or(0.0));
      }
    }
    for (size_t idx = 0; idx < settings.size(); ++idx) {
      const double rate = measured[idx].rate();
      const double ratio = rate / measured.front().rate();
      std::printf("%4.1f  %8.1f tokens/s  %5.2fx  %5.2f a verification  %4.0f%% accepted  %s\n",
                  static_cast<double>(temperature), rate, ratio, measured[idx].row.tokens_per_step,
                  100.0 * measured[idx].row.acceptance, arguments.settings[idx].c_str());
      recorded.push_back({{"setting", arguments.settings[idx]},
                          {"temperature", temperature},
                          {"tokens_per_s", rate},
                          {"runs", measured[idx].rates},
                          {"ratio", ratio},
                          {"tokens_per_verification", measured[idx].row.tokens_per_step},
                          {"acceptance", measured[idx].row.acceptance}});
    }
    std::fflush(stdout);
  }
  return bench::record_rows(recorded, arguments.json);
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::Arguments arguments;
  CLI::App app("Settings of speculation side by side behind the same long prompts");
  app.add_option("--model", arguments.model)->required();
  app.add_option("--draft", arguments.draft);
  app.add_option("--devices", arguments.devices);
  app.add_option("--prompts", arguments.prompts, "JSON lines, cut or joined to prompts")
      ->required();
  app.add_option("--setting", arguments.settings, "strategy=NAME,source=NAME,draft_depth=N, ...")
      ->required();
  app.add_option("--temperatures", arguments.temperatures)->delimiter(',');
  app.add_option("--requests", arguments.requests)->check(CLI::PositiveNumber);
  app.add_option("--prompt-tokens", arguments.prompt_tokens)->check(CLI::PositiveNumber);
  app.add_option("--tokens", arguments.tokens, "of each request")->check(CLI::PositiveNumber);
  app.add_option("--repeats", arguments.repeats, "rounds at each temperature")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", arguments.seconds, "begin no round of a temperature after so many")
      ->check(CLI::PositiveNumber);
  app.add_option("--kv-memory", arguments.kv_memory_bytes)->transform(CLI::AsSizeValue(true));
  app.add_option("--json", arguments.json, "record the rows there");
  CLI11_PARSE(app, argc, argv);
  const forerun::Status status = forerun::run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "measure_settings: %s\n", status.message().c_str());
  return 1;
}
