// Simulates many requests in one pipeline of stages, in virtual time. Reports tokens per second and
// the time between tokens by the number of concurrent requests, for plain decoding (requests
// distributed over the stages' Steps) and for strategies that speculate, whose rows share Steps;
// and the time to read a prompt.
//
//   simulate_stage_batches --profile FILE#PROFILE [--requests N…] [--json FILE]
//
// Acceptance is sampled with chances like the demo pair's (simulation/simulated_text.h). The given
// number of requests runs at any time, until four times as many, at least 16, have ended.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "runner/record_rows.h"
#include "simulation/offline_runner.h"
#include "simulation/simulated_executor.h"
#include "simulation/simulated_text.h"
#include "strategies/acceptance.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

struct Arguments {
  std::string profile, json;
  std::vector<int32_t> at_once = {1, 2, 4, 8, 16, 32};
  std::vector<std::string> settings;  // names; none: all
  uint64_t seed = 42;                 // of the texts
  int32_t tokens = 64;
  int32_t prompt = 64;
  int32_t long_prompt = 2048;
  double host_us = 150.0;
};

struct Setting {
  std::string name;
  SpeculationOptions options;
};

// Those that are asked for, plain decoding first.
std::vector<Setting> settings_of(const Arguments& arguments) {
  std::vector<Setting> all = {{"plain", {.strategy = "autoregressive"}},
                              {"pipelined", {.strategy = "pipelined"}},
                              {"levels 64", {.strategy = "pipelined", .shape = "levels"}},
                              {"serial adaptive", {.strategy = "serial_tree"}}};
  all[2].options.verify_tokens = 64;
  const auto& names = arguments.settings;
  std::erase_if(all, [&](const Setting& setting) {
    return setting.name != "plain" && !names.empty() &&
           std::find(names.begin(), names.end(), setting.name) == names.end();
  });
  return all;
}

struct Measured {
  double tokens_per_s = 0.0;
  double mean_ms = 0.0;         // between tokens
  double p99_ms = 0.0;          // of the times between two tokens
  double p99_request_ms = 0.0;  // of requests, each by its mean
};

double at_share(std::vector<double>& values, double share) {
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<size_t>(place)];
}

OfflineRequest request_of(size_t number, int32_t prompt_tokens, int32_t new_tokens) {
  OfflineRequest request;
  for (int32_t place = 0; place < prompt_tokens; ++place) {
    request.prompt.push_back(
        static_cast<TokenId>((number * 37 + static_cast<size_t>(place)) % 5000));
  }
  request.new_tokens = new_tokens;
  return request;
}

// A request's output tokens, and when each was emitted.
struct Timed {
  std::vector<OfflineResult> requests;
  std::vector<std::vector<double>> seconds;
};

Result<Timed> play_on(const StepProfile& profile, const AcceptanceModel& model,
                      const std::vector<OfflineRequest>& requests,
                      const SpeculationOptions& options, int32_t at_once, double host_us) {
  LiveCosts costs;
  StepCosts in_stages = profile.costs;
  if (profile.stages) in_stages.set_stages(stage_costs(*profile.stages));
  costs.set(std::move(in_stages));
  SimulatedExecutorOptions setup;
  setup.profile = profile;
  setup.acceptance = std::make_shared<ModelledAcceptance>(model);
  setup.costs = &costs;
  setup.host_seconds = 1e-6 * host_us;
  SimulatedExecutor executor(std::move(setup));
  FORERUN_ASSIGN_OR_RETURN(const auto plan, resolve_speculation(options));
  const auto shared = std::make_shared<SharedAcceptance>();
  Timed timed;
  timed.seconds.resize(requests.size());
  OfflineOptions offline_options;
  offline_options.max_active = at_once;
  offline_options.clock = [&executor] { return executor.now_seconds(); };
  offline_options.make_strategy = [&](size_t) {
    return plan->make_strategy(
        {.shared = shared, .costs = costs.table(at_once, kReferenceContext)});
  };
  offline_options.on_tokens = [&](size_t request, size_t tokens) {
    timed.seconds[request].insert(timed.seconds[request].end(), tokens, executor.now_seconds());
  };
  offline_options.costs = &costs;
  offline_options.drafts_sequentially = !profile.separate_devices;
  FORERUN_ASSIGN_OR_RETURN(timed.requests, run_offline(executor, requests, offline_options));
  return timed;
}

Measured summarize(const Timed& timed) {
  std::vector<double> gaps, of_requests;
  double last = 0.0;
  size_t tokens = 0;
  for (const std::vector<double>& seconds : timed.seconds) {
    for (size_t idx = 1; idx < seconds.size(); ++idx) {
      gaps.push_back(1e3 * (seconds[idx] - seconds[idx - 1]));
    }
    of_requests.push_back(1e3 * (seconds.back() - seconds.front()) /
                          static_cast<double>(seconds.size() - 1));
    last = std::max(last, seconds.back());
    tokens += seconds.size();
  }
  Measured measured;
  measured.tokens_per_s = static_cast<double>(tokens) / last;
  for (const double gap : gaps) measured.mean_ms += gap / static_cast<double>(gaps.size());
  measured.p99_ms = at_share(gaps, 0.99);
  measured.p99_request_ms = at_share(of_requests, 0.99);
  return measured;
}

Status measure_batches(const StepProfile& profile, const Arguments& arguments,
                       nlohmann::json& recorded) {
  for (const SimulatedText& text : simulated_texts()) {
    std::printf("%s\n", text.name.c_str());
    for (const int32_t at_once : arguments.at_once) {
      std::vector<OfflineRequest> requests;
      const auto count = static_cast<size_t>(std::max(16, 4 * at_once));
      for (size_t number = 0; number < count; ++number) {
        // Lengths differ, so that some requests begin while others decode.
        const auto more = static_cast<int32_t>(number * 37) % arguments.tokens;
        requests.push_back(request_of(number, arguments.prompt, arguments.tokens / 2 + more + 1));
      }
      std::vector<std::vector<TokenId>> plain;
      double plain_rate = 0.0;
      for (const Setting& setting : settings_of(arguments)) {
        FORERUN_ASSIGN_OR_RETURN(const Timed timed,
                                 play_on(profile, text.models(arguments.seed), requests,
                                         setting.options, at_once, arguments.host_us));
        const Measured measured = summarize(timed);
        if (plain.empty()) plain_rate = measured.tokens_per_s;
        bool identical = true;
        for (size_t idx = 0; idx < timed.requests.size(); ++idx) {
          if (plain.size() < timed.requests.size()) plain.push_back(timed.requests[idx].tokens);
          identical &= plain[idx] == timed.requests[idx].tokens;
        }
        std::printf(
            "  %2d at once %-16s %8.2f tokens/s %5.2fx; ms between tokens: mean %6.1f, "
            "p99 %6.1f, p99 of requests %6.1f%s\n",
            at_once, setting.name.c_str(), measured.tokens_per_s,
            measured.tokens_per_s / plain_rate, measured.mean_ms, measured.p99_ms,
            measured.p99_request_ms, identical ? "" : "  NOT IDENTICAL");
        std::fflush(stdout);
        recorded.push_back({{"text", text.name},
                            {"requests", at_once},
                            {"setting", setting.name},
                            {"tokens_per_s", measured.tokens_per_s},
                            {"over_plain", measured.tokens_per_s / plain_rate},
                            {"mean_ms", measured.mean_ms},
                            {"p99_ms", measured.p99_ms},
                            {"p99_of_requests_ms", measured.p99_request_ms},
                            {"identical", identical}});
      }
    }
  }
  return {};
}

// Measures the same pieces of a prompt, pipelined through the stages and one at a time.
Status measure_prompt(const StepProfile& profile, const Arguments& arguments,
                      nlohmann::json& recorded) {
  StepProfile whole = profile;
  whole.stages.reset();
  double seconds[2] = {};
  for (const bool in_stages : {false, true}) {
    FORERUN_ASSIGN_OR_RETURN(
        const Timed timed,
        play_on(in_stages ? profile : whole, simulated_texts().front().models(arguments.seed),
                {request_of(1, arguments.long_prompt, 1)}, {.strategy = "autoregressive"}, 1,
                arguments.host_us));
    seconds[in_stages ? 1 : 0] = timed.requests.front().first_token_seconds;
  }
  std::printf(
      "a prompt of %d tokens: %.2f s in pieces one after the other, %.2f s behind each other: "
      "%.2fx\n",
      arguments.long_prompt, seconds[0], seconds[1], seconds[0] / seconds[1]);
  recorded.push_back({{"prompt", arguments.long_prompt},
                      {"sequential_seconds", seconds[0]},
                      {"seconds", seconds[1]},
                      {"over_sequential", seconds[0] / seconds[1]}});
  return {};
}

Status run(const Arguments& arguments) {
  FORERUN_ASSIGN_OR_RETURN(const StepProfile profile, load_step_profile(arguments.profile));
  if (!profile.stages) {
    return {StatusCode::kInvalidArgument, arguments.profile + ": found no stages"};
  }
  nlohmann::json recorded = nlohmann::json::array();
  FORERUN_RETURN_IF_ERROR(measure_prompt(profile, arguments, recorded));
  FORERUN_RETURN_IF_ERROR(measure_batches(profile, arguments, recorded));
  return bench::record_rows(recorded, arguments.json);
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::Arguments arguments;
  CLI::App app{"Many requests on a target cut into stages, in virtual time"};
  app.add_option("--profile", arguments.profile, "FILE#PROFILE, with stages")->required();
  app.add_option("--requests", arguments.at_once, "that run at once");
  app.add_option("--settings", arguments.settings, "names; default: all");
  app.add_option("--seed", arguments.seed, "of the texts");
  app.add_option("--tokens", arguments.tokens, "of each on average; half as many at least")
      ->check(CLI::Range(2, 4096));
  app.add_option("--prompt", arguments.prompt, "tokens of each")->check(CLI::Range(1, 4096));
  app.add_option("--long-prompt", arguments.long_prompt, "tokens of the prompt that is read alone")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--host-us", arguments.host_us, "the coordinator's work, a Step");
  app.add_option("--json", arguments.json, "file for the results");
  CLI11_PARSE(app, argc, argv);
  const forerun::Status status = forerun::run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "simulate_stage_batches: %s\n", status.message().c_str());
  return 1;
}
