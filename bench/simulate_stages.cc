// Simulates strategies on a pipelined target with links between its stages, in virtual time, with
// the answers of a real pair of models. Reports milliseconds between tokens, and the speed-up over
// plain pipelining.
//
//   simulate_stages --model DIR --draft DIR --profile FILE#PROFILE --prompts FILE.jsonl…
//   simulate_stages … --stages 2,4,8,16 --widths 4,16,64 --gbit 10 1 --latency-ms 1 5
//
// Every strategy's output is compared with plain decoding's, token for token. With --replay-target
// only plain decoding runs the target; later its text gives the target's answers. Rows beside that
// text are answered with token 0, which does not matter. The draft always runs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clocks.h"
#include "base/status_macros.h"
#include "runner/model_pair.h"
#include "runner/record_rows.h"
#include "runner/remembering_runner.h"
#include "runner/stage_settings.h"
#include "runner/timed.h"
#include "runner/workload.h"
#include "simulation/offline_runner.h"
#include "simulation/simulated_executor.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

using bench::StageSetting;

struct Arguments {
  std::string model, draft, profile, json;
  std::vector<std::string> prompts;
  std::vector<float> temperatures = {0.0f, 0.6f};
  std::vector<int32_t> stages;                 // of the same model; empty: the profile's
  std::vector<double> gbit_per_s, latency_ms;  // pairs; empty: the profile's
  std::vector<int32_t> widths = {64};
  std::vector<std::string> settings;  // names; empty: all
  int32_t tokens = 128;
  int32_t limit = 8;        // prompts per file
  uint64_t first_seed = 1;  // of a file's first prompt; the next one's is one more
  float top_p = 1.0f;
  int32_t top_k = 0;
  double host_us = 150.0;
  bool replay_target = false;
  bool grid = false;
};

// Returns the requested settings, plain decoding first.
std::vector<StageSetting> settings_of(const Arguments& arguments) {
  std::vector<StageSetting> settings =
      arguments.grid ? bench::grid_settings() : bench::all_settings(arguments.widths);
  const auto& names = arguments.settings;
  std::erase_if(settings, [&](const StageSetting& setting) {
    return setting.name != "plain" && !names.empty() &&
           std::find(names.begin(), names.end(), setting.name) == names.end();
  });
  return settings;
}

struct Measured {
  double ms_per_token = 0.0;
  double steps_per_token = 0.0;  // items of the target per token
  double miss_share = 0.0;       // tokens that had not been guessed, or not sent
  // This thread's time for the engine's own work per item: for the draft's Steps, and for the rest.
  double draft_host_us = 0.0, host_us = 0.0;
  bool identical = true;
};

// Answers with the tokens of plain decoding.
class PlainText : public AcceptanceSource {
 public:
  explicit PlainText(int32_t vocab) : vocab_(vocab) {}
  void add(const std::vector<TokenId>& prompt, const std::vector<TokenId>& output) {
    uint64_t history = 0;
    for (const TokenId token : prompt) history = mix_hash(history, static_cast<uint64_t>(token));
    for (const TokenId token : output) {
      next_[history] = token;
      history = mix_hash(history, static_cast<uint64_t>(token));
    }
  }
  int32_t vocab() const override { return vocab_; }
  TokenId target_token(uint64_t history, int32_t) const override {
    const auto found = next_.find(history);
    return found == next_.end() ? 0 : found->second;
  }
  void draft_guesses(uint64_t, int32_t, int32_t, std::vector<Candidate>* out) const override {
    out->clear();
  }

 private:
  const int32_t vocab_;
  std::unordered_map<uint64_t, TokenId> next_;
};

class Bench {
 public:
  Bench(const bench::ModelPair& pair, std::vector<OfflineRequest> requests, bool replays_target)
      : pair_(pair),
        requests_(std::move(requests)),
        replays_target_(replays_target),
        text_(pair.live_vocab) {}

  Result<Measured> measure(StepProfile profile, const StageSetting& setting, double host_us) {
    if (setting.hides_draft) {
      StepCosts costs;
      for (const auto& entry : profile.costs.entries(Role::kTarget)) {
        costs.add(Role::kTarget, {entry.rows, entry.kv_tokens}, entry.seconds);
      }
      costs.add(Role::kDraft, {1, 0}, 1e-9);
      profile.costs = costs;
    }
    int64_t model_ns = 0, draft_worker_ns = 0;
    int64_t strategy_ns[kNumRoles] = {};
    SimulatedExecutorOptions options;
    options.trace = true;
    options.on_step = [&](const StepRecord& record) {
      if (record.role == Role::kDraft) draft_worker_ns += record.host_cpu_ns;
    };
    options.host_seconds = 1e-6 * host_us;
    for (const Role role : {Role::kTarget, Role::kDraft}) {
      auto runner = pair_.make_runner(role);
      if (role == Role::kTarget && replays_target_ && !plain_.empty()) {
        runner = std::make_unique<SimulatedRunner>(&text_, runner->kv_blocks());
      }
      if (role == Role::kDraft) {
        runner = std::make_unique<bench::RememberingRunner>(std::move(runner), &guesses_);
      }
      options.runners[static_cast<size_t>(role)] =
          std::make_unique<bench::TimedRunner>(std::move(runner), &model_ns);
    }
    constexpr int32_t kContextTokens = 256;
    StepCosts of_stages = profile.costs;
    of_stages.set_stages(stage_costs(*profile.stages));
    const CostTable costs = of_stages.table(1, kContextTokens);
    options.profile = std::move(profile);
    SimulatedExecutor executor(std::move(options));
    const ModelFacts facts{
        .has_draft_model = true, .target_vocab = pair_.live_vocab, .draft_vocab = pair_.live_vocab};
    FORERUN_ASSIGN_OR_RETURN(const auto plan, resolve_speculation(setting.options, facts));
    const int64_t start_ns = thread_cpu_ns();
    FORERUN_ASSIGN_OR_RETURN(
        const std::vector<OfflineResult> results,
        run_offline(executor, requests_,
                    {.max_active = 1,
                     .clock = [&executor] { return executor.now_seconds(); },
                     .make_strategy =
                         [&](size_t) {
                           return plan->make_strategy({.shared = nullptr, .costs = costs});
                         }}));
    const int64_t draft_ns = draft_worker_ns + strategy_ns[static_cast<size_t>(Role::kDraft)];
    const int64_t host_ns = thread_cpu_ns() - start_ns - model_ns - draft_ns;
    Measured measured;
    double seconds = 0.0;
    int64_t tokens = 0, steps = 0, emitted = 0, accepted = 0;
    for (size_t idx = 0; idx < results.size(); ++idx) {
      const OfflineResult& request = results[idx];
      seconds += request.last_token_seconds - request.first_token_seconds;
      tokens += static_cast<int64_t>(request.tokens.size()) - 1;
      steps += request.stats.target_steps;
      emitted += request.stats.emitted_tokens;
      accepted += request.stats.accepted_tokens;
      if (plain_.size() < results.size()) {
        plain_.push_back(request.tokens);
        text_.add(requests_[idx].prompt, request.tokens);
      }
      measured.identical &= plain_[idx] == request.tokens;
    }
    measured.ms_per_token = 1e3 * seconds / static_cast<double>(tokens);
    measured.steps_per_token = static_cast<double>(steps) / static_cast<double>(tokens);
    measured.miss_share = 1.0 - static_cast<double>(accepted) / static_cast<double>(emitted);
    measured.host_us = 1e-3 * static_cast<double>(host_ns) / static_cast<double>(steps);
    measured.draft_host_us = 1e-3 * static_cast<double>(draft_ns) / static_cast<double>(steps);
    return measured;
  }

 private:
  const bench::ModelPair& pair_;
  const std::vector<OfflineRequest> requests_;
  const bool replays_target_;
  PlainText text_;
  bench::RememberedGuesses guesses_;
  std::vector<std::vector<TokenId>> plain_;  // texts of the first setting, plain decoding
};

Result<std::vector<OfflineRequest>> requests_of(const bench::ModelPair& pair,
                                                const std::string& file, float temperature,
                                                const Arguments& arguments) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                           bench::read_prompts(file, arguments.limit));
  std::vector<OfflineRequest> requests;
  for (const std::string& text : texts) {
    OfflineRequest& request = requests.emplace_back();
    FORERUN_ASSIGN_OR_RETURN(
        request.prompt, pair.models[0]->tokenizer().encode(text, {.add_special_tokens = true}));
    request.new_tokens = arguments.tokens;
    request.sampling.temperature = temperature;
    request.sampling.top_p = arguments.top_p;
    request.sampling.top_k = arguments.top_k;
    request.sampling.seed = arguments.first_seed + requests.size() - 1;
  }
  return requests;
}

std::vector<StageChain> grid_links(const StageChain& of_profile) {
  std::vector<StageChain> links;
  for (const double gbit_per_s : {0.1, 1.0, 10.0, 100.0}) {
    for (const double latency_ms : {0.1, 1.0, 10.0}) {
      links.push_back(of_profile);
      links.back().bytes_per_s = 1e9 / 8 * gbit_per_s;
      links.back().latency_seconds = 1e-3 * latency_ms;
    }
  }
  return links;
}

// Returns every number of stages with every link.
std::vector<StageChain> chains_of(const StageChain& of_profile, const Arguments& arguments) {
  std::vector<StageChain> links = {of_profile};
  if (arguments.grid && arguments.gbit_per_s.empty()) links = grid_links(of_profile);
  for (size_t idx = 0; idx < arguments.gbit_per_s.size(); ++idx) {
    if (idx > 0) links.push_back(of_profile);
    links[idx].bytes_per_s = 1e9 / 8 * arguments.gbit_per_s[idx];
    links[idx].latency_seconds = 1e-3 * arguments.latency_ms[idx];
  }
  std::vector<int32_t> numbers = arguments.stages;
  if (arguments.grid && numbers.empty()) numbers = {2, 4, 8, 16};
  if (numbers.empty()) return links;
  std::vector<StageChain> chains;
  for (const int32_t stages : numbers) {
    for (const StageChain& link : links) {
      chains.push_back(link);
      chains.back().stages = stages;
    }
  }
  return chains;
}

// Measures the settings on one chain of stages and one text, which `cell` names.
Result<std::vector<nlohmann::json>> measure_cell(Bench& bench, const StepProfile& profile,
                                                 const Arguments& arguments,
                                                 const nlohmann::json& cell) {
  std::printf("%d stages, %g Gb/s + %g ms, %s at %.1f\n", cell["stages"].get<int32_t>(),
              cell["gbit_per_s"].get<double>(), cell["latency_ms"].get<double>(),
              cell["text"].get<std::string>().c_str(), cell["temperature"].get<double>());
  std::vector<nlohmann::json> rows;
  double plain_ms = 0.0;
  for (const StageSetting& setting : settings_of(arguments)) {
    FORERUN_ASSIGN_OR_RETURN(const Measured measured,
                             bench.measure(profile, setting, arguments.host_us));
    if (setting.name == "plain") plain_ms = measured.ms_per_token;
    std::printf(
        "  %-24s %8.2f ms a token %6.2fx %6.2f items a token %5.3f missed %5.0f + %4.0f us "
        "host%s\n",
        setting.name.c_str(), measured.ms_per_token, plain_ms / measured.ms_per_token,
        measured.steps_per_token, measured.miss_share, measured.host_us, measured.draft_host_us,
        measured.identical ? "" : "  NOT IDENTICAL");
    std::fflush(stdout);
    nlohmann::json& row = rows.emplace_back(cell);
    row.update({{"setting", setting.name},
                {"ms_per_token", measured.ms_per_token},
                {"over_plain", plain_ms / measured.ms_per_token},
                {"items_per_token", measured.steps_per_token},
                {"miss_share", measured.miss_share},
                {"host_us", measured.host_us},
                {"draft_host_us", measured.draft_host_us},
                {"identical", measured.identical}});
  }
  return rows;
}

// Returns the row of a cell of the grid: `pipelined` beside the best serial tree.
nlohmann::json compare_with_serial(const std::vector<nlohmann::json>& rows) {
  const auto ms = [](const nlohmann::json& row) { return row["ms_per_token"].get<double>(); };
  nlohmann::json row = rows.at(1);
  const auto best = std::min_element(rows.begin() + 2, rows.end(),
                                     [&](const auto& a, const auto& b) { return ms(a) < ms(b); });
  row.erase("host_us");
  row.erase("draft_host_us");
  row["serial"] = (*best)["setting"];
  row["serial_ms_per_token"] = ms(*best);
  row["over_serial"] = ms(*best) / ms(row);
  std::printf("  = %.3f of %s\n", ms(*best) / ms(row),
              (*best)["setting"].get<std::string>().c_str());
  return row;
}

Status run(const Arguments& arguments) {
  FORERUN_ASSIGN_OR_RETURN(StepProfile profile, load_step_profile(arguments.profile));
  if (!profile.stages) {
    return {StatusCode::kInvalidArgument, arguments.profile + ": found no stages"};
  }
  if (arguments.gbit_per_s.size() != arguments.latency_ms.size()) {
    return {StatusCode::kInvalidArgument,
            "--gbit and --latency-ms: as many of one as of the other"};
  }
  const std::vector<StageChain> chains = chains_of(*profile.stages, arguments);
  FORERUN_ASSIGN_OR_RETURN(const bench::ModelPair pair,
                           bench::ModelPair::load(arguments.model, arguments.draft, {1024, 1024}));
  nlohmann::json recorded = nlohmann::json::array();
  for (const std::string& file : arguments.prompts) {
    for (const float temperature : arguments.temperatures) {
      FORERUN_ASSIGN_OR_RETURN(std::vector<OfflineRequest> requests,
                               requests_of(pair, file, temperature, arguments));
      Bench bench(pair, std::move(requests), arguments.replay_target);
      for (const StageChain& chain : chains) {
        profile.stages = chain;
        const nlohmann::json cell = {{"stages", chain.stages},
                                     {"gbit_per_s", 8e-9 * chain.bytes_per_s},
                                     {"latency_ms", 1e3 * chain.latency_seconds},
                                     {"text", std::filesystem::path(file).stem().string()},
                                     {"temperature", temperature}};
        FORERUN_ASSIGN_OR_RETURN(const std::vector<nlohmann::json> rows,
                                 measure_cell(bench, profile, arguments, cell));
        if (arguments.grid && rows.size() > 2) {
          recorded.push_back(compare_with_serial(rows));
        } else {
          for (const nlohmann::json& row : rows) recorded.push_back(row);
        }
      }
    }
  }
  return bench::record_rows(recorded, arguments.json);
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::Arguments arguments;
  CLI::App app{"Strategies on a target cut into stages, in virtual time"};
  app.add_option("--model", arguments.model)->required();
  app.add_option("--draft", arguments.draft)->required();
  app.add_option("--profile", arguments.profile, "FILE#PROFILE, with stages")->required();
  app.add_option("--prompts", arguments.prompts, "JSON lines")->required();
  app.add_option("--temperature", arguments.temperatures);
  app.add_option("--stages", arguments.stages, "that the model is cut into")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--widths", arguments.widths, "w of levels and best")
      ->delimiter(',')
      ->check(CLI::Range(1, 128));
  app.add_option("--gbit", arguments.gbit_per_s, "of the links, in place of the profile's");
  app.add_option("--latency-ms", arguments.latency_ms, "as many as --gbit");
  app.add_option("--settings", arguments.settings, "names; default: all");
  app.add_option("--seed", arguments.first_seed,
                 "of a file's first prompt; one more for each other");
  app.add_option("--top-p", arguments.top_p, "where sampled");
  app.add_option("--top-k", arguments.top_k, "where sampled");
  app.add_option("--tokens", arguments.tokens);
  app.add_option("--limit", arguments.limit, "prompts of a file");
  app.add_option("--host-us", arguments.host_us, "the coordinator's work, an item");
  app.add_flag("--grid", arguments.grid,
               "`pipelined` against serial trees on 2 to 16 stages and links of many kinds");
  app.add_flag("--replay-target", arguments.replay_target, "the target answers by its plain text");
  app.add_option("--json", arguments.json, "file for the results");
  CLI11_PARSE(app, argc, argv);
  const forerun::Status status = forerun::run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "simulate_stages: %s\n", status.message().c_str());
  return 1;
}
