// Simulates `pipelined` on synthetic acceptance in virtual time: eight stages and a draft, with
// SpecPipe's times and without links. Prints a table with milliseconds per token, the speed-up over
// plain pipelining, and the host's own time per item, which includes the draft's Steps and the
// simulated models. The argument is the number of tokens.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/clocks.h"
#include "simulation/offline_runner.h"
#include "simulation/simulated_executor.h"
#include "simulation/simulated_text.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

StepProfile eight_stages() {
  StepProfile profile;
  profile.separate_devices = true;
  profile.costs.add(Role::kTarget, {64, 0}, 302e-3);
  profile.costs.add(Role::kDraft, {64, 0}, 17e-3);
  profile.stages = {.stages = 8, .bytes_per_s = 1e12};
  return profile;
}

struct Measured {
  double ms_per_token = 0.0;
  double host_us = 0.0;  // per item
};

Measured measure(const SpeculationOptions& strategy, const SimulatedText& text, int32_t tokens) {
  SimulatedExecutorOptions options;
  options.profile = eight_stages();
  options.acceptance = std::make_shared<ModelledAcceptance>(text.models(42));
  SimulatedExecutor executor(std::move(options));
  OfflineRequest request;
  request.prompt = {1, 2, 3, 4, 5};
  request.new_tokens = tokens;
  request.sampling.temperature = 0.0f;
  OfflineOptions offline_options;
  offline_options.clock = [&] { return executor.now_seconds(); };
  offline_options.make_strategy = [plan = resolve_speculation(strategy).value()](size_t) {
    return plan->make_strategy({});
  };
  const int64_t start_ns = thread_cpu_ns();
  const auto results = run_offline(executor, {&request, 1}, offline_options).value();
  const int64_t host_ns = thread_cpu_ns() - start_ns;
  const OfflineResult& result = results.front();
  return {1e3 / result.tokens_per_s(),
          1e-3 * static_cast<double>(host_ns) / static_cast<double>(result.stats.target_steps)};
}

void print_table(int32_t tokens) {
  std::printf("%-14s | %8s %6s %8s | %8s %6s %8s\n", "text", "levels", "x", "host us", "best", "x",
              "host us");
  for (const SimulatedText& text : simulated_texts()) {
    const double plain = measure({.strategy = "autoregressive"}, text, tokens).ms_per_token;
    SpeculationOptions levels{.strategy = "pipelined", .shape = "levels", .verify_tokens = 64};
    SpeculationOptions best{
        .strategy = "pipelined", .shape = "best", .verify_tokens = 64, .draft_width = 64};
    const Measured a = measure(levels, text, tokens);
    const Measured b = measure(best, text, tokens);
    std::printf("%-14s | %8.2f %6.2f %8.0f | %8.2f %6.2f %8.0f\n", text.name.c_str(),
                a.ms_per_token, plain / a.ms_per_token, a.host_us, b.ms_per_token,
                plain / b.ms_per_token, b.host_us);
  }
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::print_table(argc > 1 ? std::atoi(argv[1]) : 500);
  return 0;
}
