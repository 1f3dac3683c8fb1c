// Simulates strategies on a machine's profile. Reports tokens per second, and how much faster the
// simulation runs than the simulated time.
//
//   simulate_strategies FILE#PROFILE [ACCEPTANCE.json] [TOKENS] [HOST_US]
//
// ACCEPTANCE.json is a file of record_acceptance; without it, or with "-", the texts are those of
// simulation/simulated_text.h. HOST_US microseconds are added to every Step.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "simulation/offline_runner.h"
#include "simulation/recorded_acceptance.h"
#include "simulation/simulated_executor.h"
#include "simulation/simulated_text.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

struct Text {
  std::string name;
  std::shared_ptr<const AcceptanceSource> acceptance;
  std::vector<OfflineRequest> requests;
};

std::vector<Text> modelled_texts(int32_t tokens) {
  std::vector<Text> texts;
  for (const SimulatedText& each : simulated_texts()) {
    Text text{each.name, std::make_shared<ModelledAcceptance>(each.models(42)), {}};
    OfflineRequest request;
    request.prompt = {1, 2, 3, 4, 5};
    request.new_tokens = tokens;
    text.requests.push_back(std::move(request));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<std::vector<Text>> recorded_texts(const std::string& file, int32_t tokens) {
  FORERUN_ASSIGN_OR_RETURN(RecordedAcceptance recorded, RecordedAcceptance::load(file));
  Text text{"recorded", nullptr, {}};
  for (const RecordedText& each : recorded.texts()) {
    OfflineRequest request;
    request.prompt.assign(each.tokens.begin(), each.tokens.begin() + each.prompt_tokens);
    request.new_tokens =
        std::min(tokens, static_cast<int32_t>(each.tokens.size()) - each.prompt_tokens);
    text.requests.push_back(std::move(request));
  }
  text.acceptance = std::make_shared<RecordedAcceptance>(std::move(recorded));
  return std::vector<Text>{std::move(text)};
}

struct Setting {
  std::string name;
  SpeculationOptions options{.strategy = "serial_tree"};
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  all.push_back({"autoregressive", {}});
  all.back().options.strategy = "autoregressive";
  for (const char* name : {"serial", "parallel"}) {
    for (const int32_t depth : {2, 3, 4, 5, 6}) {
      Setting setting{std::string(name) + " bs8 w8 d" + std::to_string(depth), {}};
      setting.options.strategy = std::string(name) + "_tree";
      setting.options.shape = "best";
      setting.options.verify_tokens = setting.options.draft_width = 8;
      setting.options.draft_depth = depth;
      all.push_back(std::move(setting));
    }
    all.push_back({std::string(name) + " adaptive", {}});
    all.back().options.strategy = std::string(name) + "_tree";
  }
  return all;
}

// Returns the median, with which `forerun bench` also summarizes a file of prompts.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Status print_row(const StepProfile& profile, const Text& text, const Setting& setting,
                 double host_seconds) {
  SimulatedExecutorOptions options;
  options.profile = profile;
  options.acceptance = text.acceptance;
  options.host_seconds = host_seconds;
  SimulatedExecutor executor(std::move(options));
  constexpr int32_t kContextTokens = 256;
  const CostTable costs = profile.costs.table(1, kContextTokens);
  OfflineOptions offline_options;
  offline_options.clock = [&executor] { return executor.now_seconds(); };
  FORERUN_ASSIGN_OR_RETURN(const auto plan, resolve_speculation(setting.options));
  offline_options.make_strategy = [&](size_t) {
    return plan->make_strategy({.shared = nullptr, .costs = costs});
  };
  const auto start = std::chrono::steady_clock::now();
  FORERUN_ASSIGN_OR_RETURN(const std::vector<OfflineResult> results,
                           run_offline(executor, text.requests, offline_options));
  const double taken =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<double> rates, per_step;
  for (const OfflineResult& request : results) {
    rates.push_back(request.tokens_per_s());
    per_step.push_back(request.tokens_per_step());
  }
  std::printf("%-14s %-18s %9.1f tokens/s %6.2f tokens/step %8.3f s simulated %7.0fx faster\n",
              text.name.c_str(), setting.name.c_str(), median(rates), median(per_step),
              executor.now_seconds(), executor.now_seconds() / taken);
  return {};
}

Status run(int argc, char** argv) {
  if (argc < 2) {
    return Status(StatusCode::kInvalidArgument,
                  "usage: simulate_strategies FILE#PROFILE [ACCEPTANCE.json|-] [TOKENS] [HOST_US]");
  }
  const int32_t tokens = argc > 3 ? std::max(2, std::atoi(argv[3])) : 1000;
  const double host_seconds = argc > 4 ? 1e-6 * std::max(0.0, std::atof(argv[4])) : 0.0;
  FORERUN_ASSIGN_OR_RETURN(const StepProfile profile, load_step_profile(argv[1]));
  std::vector<Text> texts = modelled_texts(tokens);
  if (argc > 2 && std::string(argv[2]) != "-") {
    FORERUN_ASSIGN_OR_RETURN(texts, recorded_texts(argv[2], tokens));
  }
  std::printf("%s: %s (%s)\n", profile.name.c_str(), profile.machine.c_str(),
              profile.source.c_str());
  for (const Text& text : texts) {
    for (const Setting& setting : settings()) {
      if (!profile.has(Role::kDraft) && setting.options.strategy != "autoregressive") continue;
      FORERUN_RETURN_IF_ERROR(print_row(profile, text, setting, host_seconds));
    }
  }
  return {};
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  const forerun::Status status = forerun::run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "simulate_strategies: %s\n", status.message().c_str());
  return 1;
}
