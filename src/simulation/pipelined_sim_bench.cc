// Steps a token of `pipelined` on synthetic acceptance, a target of eight stages in lockstep: plain
// decoding takes eight. One level a step, and the likeliest nodes of any depth with one and with
// two draft steps in the time of a stage. Prints a table; takes the number of tokens.
#include <cstdio>
#include <cstdlib>

#include "simulation/simulate.h"
#include "simulation/simulate_stages.h"

namespace forerun {
namespace {

void print_table(int32_t tokens) {
  constexpr int32_t kStages = 8;
  constexpr int32_t kWidth = 64;
  std::printf("%-14s | steps a token: %8s %8s %8s\n", "text", "levels", "best, 1", "best, 2");
  for (const SimulatedText& text : simulated_texts()) {
    SpeculationOptions levels{.strategy = "pipelined", .shape = "levels", .verify_tokens = kWidth};
    SpeculationOptions best{
        .strategy = "pipelined", .shape = "best", .verify_tokens = kWidth, .draft_width = kWidth};
    const FakeModels models = text.models(42);
    const auto steps = [&](const SpeculationOptions& options, int32_t draft_steps) {
      return simulate_stages(options, models, tokens, kStages, draft_steps).steps_per_token;
    };
    std::printf("%-14s | %23.2f %8.2f %8.2f\n", text.name.c_str(), steps(levels, 1), steps(best, 1),
                steps(best, 2));
  }
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::print_table(argc > 1 ? std::atoi(argv[1]) : 500);
  return 0;
}
