// parallel_tree against the best serial_tree on synthetic acceptance, in virtual time: both at the
// same cost of a draft step, serial_tree with both models on all devices, parallel_tree with each
// on its own, where the target is a little slower. Prints a table; takes the number of tokens.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "strategies/simulate.h"

namespace forerun {
namespace {

// SwiftSpec Table 6, Qwen2-72B and 1.5B: milliseconds a Step of up to 8 rows.
CostTable flat_costs(double target_ms, double draft_ms) {
  CostTable costs;
  for (int32_t rows = 1; rows <= CostTable::kMaxRows; ++rows) {
    const double more = rows <= 8 ? 1.0 : 1.0 + 0.03 * (rows - 8);
    costs.seconds[0][static_cast<size_t>(rows)] = static_cast<float>(1e-3 * target_ms * more);
    costs.seconds[1][static_cast<size_t>(rows)] = static_cast<float>(1e-3 * draft_ms * more);
  }
  return costs;
}

struct Best {
  Simulated run;
  StrategyOptions options;
};

std::string name_of(const StrategyOptions& o) {
  if (o.shape == "adaptive") return "adaptive";
  return "w" + std::to_string(o.draft_width) + " d" + std::to_string(o.draft_depth);
}

Best best_serial(const FakeModels& models, const CostTable& costs, int32_t tokens) {
  Best best;
  StrategyOptions options;
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
  struct Machine {
    const char* name;
    double serial_target, serial_draft, target, draft;
  };
  const Machine machines[] = {{"Table 6", 10.34, 3.73, 10.48, 3.25},
                              {"cheap draft", 10.34, 1.1, 10.48, 1.0},
                              {"dear draft", 10.34, 5.6, 10.48, 5.0}};
  std::printf("%-12s %-14s | %-8s %7s %6s | %s\n", "machine", "text", "serial", "speedup", "tok/st",
              "parallel over it, tok/st:  w8 dr  w8 dr+1  w8 d64  adaptive");
  for (const Machine& machine : machines) {
    const CostTable serial = flat_costs(machine.serial_target, machine.serial_draft);
    const CostTable parallel = flat_costs(machine.target, machine.draft);
    for (const SimulatedText& text : simulated_texts()) {
      const FakeModels models = text.models(42);
      const Best best = best_serial(models, serial, tokens);
      std::printf("%-12s %-14s | %-8s %7.3f %6.2f |", machine.name, text.name.c_str(),
                  name_of(best.options).c_str(), best.run.speedup, best.run.tokens_per_step);
      StrategyOptions options;
      options.name = "parallel_tree";
      options.shape = "best";
      options.draft_width = 8;
      const auto ratio = static_cast<int32_t>(machine.target / machine.draft);
      const double scale = machine.serial_target / machine.target;  // to the same plain step
      for (int32_t depth : {ratio, ratio + 1, 64, 0}) {
        if (depth == 0) options.shape = "adaptive";
        options.draft_depth = std::max(depth, 1);
        const Simulated run = simulate_side_by_side(options, models, parallel, tokens);
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
