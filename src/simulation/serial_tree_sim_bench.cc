// Predicts the speed-up of serial_tree over plain decoding on synthetic acceptance: fixed settings
// against the adaptive rule. Prints a table; the argument is the number of tokens.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "simulation/simulate.h"
#include "simulation/simulated_text.h"

namespace forerun {
namespace {

std::string setting_name(const SpeculationOptions& options) {
  if (options.shape == "chain") return "chain " + std::to_string(*options.draft_depth);
  return "bs" + std::to_string(*options.verify_tokens) + " w" +
         std::to_string(*options.draft_width) + " d" + std::to_string(*options.draft_depth);
}

struct Compared {
  double best = 1.0;
  std::string name = "plain";
  Simulated cold, warm;
};

Compared compare(const AcceptanceModel& models, const CostTable& costs, int32_t tokens) {
  Compared result;
  for (const SpeculationOptions& options : fixed_settings()) {
    const double speedup = simulate(options, models, costs, tokens).speedup;
    if (speedup > result.best) {
      result.best = speedup;
      result.name = setting_name(options);
    }
  }
  auto shared = std::make_shared<SharedAcceptance>();
  result.cold = simulate({}, models, costs, tokens, shared);
  result.warm = simulate({}, models, costs, tokens, shared);
  return result;
}

void print_row(const std::string& text, double draft, double eight, const Compared& row) {
  std::printf("%-14s %5.2f %5.2f | %8.3f %-10s | %8.3f %8.3f %8.3f %6.2f\n", text.c_str(), draft,
              eight, row.best, row.name.c_str(), row.cold.speedup, row.warm.speedup,
              row.cold.speedup / row.best, row.cold.tokens_per_step);
}

void print_table(int32_t tokens) {
  std::printf("%-14s %5s %5s | %8s %-10s | %8s %8s %8s %6s\n", "text", "draft", "8row", "best",
              "fixed", "cold", "warm", "of best", "tok/st");
  // Looping code alternates with text for which the draft is never right.
  AcceptanceModel turns = simulated_texts()[2].models(7);
  turns.phases = {turns.rank_hit, simulated_texts().back().models(7).rank_hit};
  turns.phase_tokens = 250;
  for (const double draft : {0.1, 0.2, 0.35, 0.7}) {
    for (const double eight : {1.15, 1.5, 2.0}) {
      const CostTable costs = simulated_costs(draft, eight);
      for (const SimulatedText& text : simulated_texts()) {
        print_row(text.name, draft, eight, compare(text.models(42), costs, tokens));
      }
      print_row("taking turns", draft, eight, compare(turns, costs, tokens));
    }
  }
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::print_table(argc > 1 ? std::atoi(argv[1]) : 1000);
  return 0;
}
