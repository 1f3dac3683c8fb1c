// Compares parallel_tree with the best serial_tree on synthetic acceptance, in virtual time.
// serial_tree runs both models on all devices; parallel_tree runs each on its own devices, which
// makes the target a little slower. Prints a table; the argument is the number of tokens.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "simulation/simulate.h"
#include "simulation/simulated_text.h"

namespace forerun {
namespace {

struct Best {
  Simulated run;
  SpeculationOptions options{.strategy = "serial_tree"};
};

Best best_serial(const AcceptanceModel& models, const CostTable& costs, int32_t tokens) {
  Best best;
  SpeculationOptions options{.strategy = "serial_tree"};
  options.shape = "best";
  for (int32_t width : {2, 4, 8}) {
    for (int32_t depth = 1; depth <= 8; ++depth) {
      options.draft_width = width;
      options.draft_depth = depth;
      const Simulated run = simulate(options, models, costs, tokens);
      if (run.speedup > best.run.speedup) best = {run, options};
    }
  }
  return best;
}

void print_table(int32_t tokens) {
  // Milliseconds of a Step, sequential and concurrent; the first row is from SwiftSpec Table 6.
  struct Machine {
    const char* name;
    double serial_target, serial_draft, target, draft;
  };
  const Machine machines[] = {{"Table 6", 10.34, 3.73, 10.48, 3.25},
                              {"cheap draft", 10.34, 1.1, 10.48, 1.0},
                              {"dear draft", 10.34, 5.6, 10.48, 5.0}};
  std::printf("%-12s %-14s | %-6s %7s %6s | parallel: w8 d=r      w8 d=r+1    adaptive\n",
              "machine", "text", "serial", "speedup", "tok/st");
  for (const Machine& machine : machines) {
    const CostTable serial = flat_costs(machine.serial_target, machine.serial_draft);
    const CostTable parallel = flat_costs(machine.target, machine.draft);
    // Speedups are over plain decoding on all devices, as in the serial column.
    const double scale = machine.serial_target / machine.target;
    for (const SimulatedText& text : simulated_texts()) {
      const AcceptanceModel models = text.models(42);
      const Best best = best_serial(models, serial, tokens);
      std::printf("%-12s %-14s | w%d d%d  %7.3f %6.2f | over it, tok/st:", machine.name,
                  text.name.c_str(), *best.options.draft_width, *best.options.draft_depth,
                  best.run.speedup, best.run.tokens_per_step);
      SpeculationOptions options{.strategy = "serial_tree"};
      options.strategy = "parallel_tree";
      options.draft_width = 8;
      const auto ratio = std::max(static_cast<int32_t>(machine.target / machine.draft), 1);
      for (const int32_t depth : {ratio, ratio + 1, 0}) {
        options.shape = depth > 0 ? "best" : "adaptive";
        options.draft_depth = std::max(depth, 1);
        const Simulated run = simulate_concurrent(options, models, parallel, tokens);
        std::printf("  %5.3f %4.2f", run.speedup * scale / best.run.speedup, run.tokens_per_step);
      }
      std::printf("\n");
    }
  }
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::print_table(argc > 1 ? std::atoi(argv[1]) : 2000);
  return 0;
}
