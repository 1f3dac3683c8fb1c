#include "planner/choose_strategy.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

namespace forerun {
namespace {

constexpr std::array<int32_t, 8> kVerifyTokens = {2, 3, 4, 6, 8, 12, 16, 32};
constexpr std::array<int32_t, 5> kWidths = {1, 2, 4, 8, 16};
constexpr int32_t kMaxDepth = 16;
constexpr size_t kListed = 5;
constexpr const char* kWithoutDraft = "serial_tree, guesses from the text so far alone";
// The chances, by rank, that a draft's guesses are accepted: the first list is assumed for a draft
// of a quarter of the target's size on mixed text, the second is that of a draft that is hardly
// ever wrong.
const std::vector<double> kAssumedChances = {0.62, 0.12, 0.05, 0.04, 0.02, 0.02, 0.01, 0.01};
const std::vector<double> kVeryGood = {0.92, 0.03, 0.01, 0.01};

struct Setting {
  int32_t verify_tokens = 1;
  int32_t width = 0;
  int32_t depth = 0;
  double tokens = 1.0;
  double seconds = 0.0;
  double rate() const { return tokens / seconds; }
};

// Returns the tree's chances after each draft step: chances[d] for depth d, descending, the root
// first.
std::vector<std::vector<double>> grow(const std::vector<double>& rank_chances, int32_t width,
                                      int32_t depth) {
  std::vector<double> open = {1.0};
  std::vector<double> all = {1.0};
  std::vector<std::vector<double>> by_depth = {all};
  for (int32_t step = 0; step < depth; ++step) {
    std::sort(open.begin(), open.end(), std::greater<double>());
    const size_t run = std::min(open.size(), static_cast<size_t>(width));
    std::vector<double> next(open.begin() + static_cast<std::ptrdiff_t>(run), open.end());
    for (size_t leaf = 0; leaf < run; ++leaf) {
      for (double chance : rank_chances) {
        next.push_back(open[leaf] * chance);
        all.push_back(open[leaf] * chance);
      }
    }
    open = std::move(next);
    std::sort(all.begin(), all.end(), std::greater<double>());
    by_depth.push_back(all);
  }
  return by_depth;
}

double best_sum(const std::vector<double>& chances, int32_t count) {
  double sum = 0.0;
  for (size_t i = 0; i < chances.size() && static_cast<int32_t>(i) < count; ++i) sum += chances[i];
  return sum;
}

// Returns all settings, the fastest first.
std::vector<Setting> predict(const CostTable& costs, const std::vector<double>& rank_chances) {
  std::vector<Setting> settings;
  for (int32_t width : kWidths) {
    const auto trees = grow(rank_chances, width, kMaxDepth);
    // The first step runs only the root.
    double drafting = 0.0;
    for (int32_t depth = 1; depth <= kMaxDepth; ++depth) {
      drafting += costs.at(Role::kDraft, depth == 1 ? 1 : width);
      for (int32_t rows : kVerifyTokens) {
        settings.push_back({rows, width, depth, best_sum(trees[static_cast<size_t>(depth)], rows),
                            drafting + costs.at(Role::kTarget, rows)});
      }
    }
  }
  std::stable_sort(settings.begin(), settings.end(),
                   [](const Setting& a, const Setting& b) { return a.rate() > b.rate(); });
  return settings;
}

std::string report_line(const char* name, const Setting& setting, double plain_rate) {
  char text[128];
  if (setting.depth == 0) {
    std::snprintf(text, sizeof(text), "%-18s", name);
  } else {
    std::snprintf(text, sizeof(text), "%-11s bs %2d w %2d d %2d", name, setting.verify_tokens,
                  setting.width, setting.depth);
  }
  char numbers[128];
  std::snprintf(numbers, sizeof(numbers), "  %6.2f tokens/round  %8.3f ms/round  %8.1f tokens/s",
                setting.tokens, 1e3 * setting.seconds, setting.rate());
  char ratio[32];
  std::snprintf(ratio, sizeof(ratio), "  %.2fx\n", setting.rate() / plain_rate);
  std::string padded = text;
  padded.resize(std::max<size_t>(padded.size(), 29), ' ');
  return padded + numbers + ratio;
}

}  // namespace

double expected_tokens(const std::vector<double>& rank_chances, int32_t verify_tokens,
                       int32_t draft_width, int32_t draft_depth) {
  return best_sum(grow(rank_chances, draft_width, draft_depth).back(), std::max(verify_tokens, 1));
}

namespace {

// Chooses as if the models took turns.
StrategyChoice choose_sequential(const PlannerInput& input) {
  StrategyChoice choice;
  const CostTable& costs = input.costs;
  if (!costs.measured() || (input.has_draft_model && costs.at(Role::kDraft, 1) <= 0.0f)) {
    if (input.has_draft_model) {
      choice.auto_choice.source_without_draft.clear();
      choice.verify_tokens = 8;
      choice.draft_width = 4;
      choice.draft_depth = 4;
    }
    choice.report = std::string("no costs measured: ") +
                    (input.has_draft_model ? "serial_tree" : kWithoutDraft) + "\n";
    return choice;
  }
  const Setting plain{1, 0, 0, 1.0, costs.at(Role::kTarget, 1)};
  choice.seconds_per_round = plain.seconds;
  choice.report = report_line("autoregressive", plain, plain.rate());
  if (!input.has_draft_model) {
    choice.report += std::string("no draft model: ") + kWithoutDraft + "\n";
    return choice;
  }
  const bool assumed = input.rank_chances.empty();
  const std::vector<Setting> settings =
      predict(costs, assumed ? kAssumedChances : input.rank_chances);
  const Setting best = settings.front();
  for (size_t i = 0; i < std::min(kListed, settings.size()); ++i) {
    choice.report += report_line("serial_tree", settings[i], plain.rate());
  }
  const char* basis = assumed ? "assumed" : "measured";
  double reachable = best.rate() / plain.rate();
  if (assumed) reachable = predict(costs, kVeryGood).front().rate() / plain.rate();
  if (reachable <= 1.0) {
    choice.report += std::string("with ") +
                     (assumed ? "even a very good draft" : "measured acceptance") +
                     " no setting beats plain decoding: " + kWithoutDraft + "\n";
    return choice;
  }
  choice.auto_choice.source_without_draft.clear();
  choice.verify_tokens = best.verify_tokens;
  choice.draft_width = best.width;
  choice.draft_depth = best.depth;
  choice.tokens_per_round = best.tokens;
  choice.seconds_per_round = best.seconds;
  choice.speedup = best.rate() / plain.rate();
  char reason[160];
  std::snprintf(reason, sizeof(reason),
                "%s acceptance (first guess %.0f%%): serial_tree, its size adapted as it decodes\n",
                basis, 100.0 * (assumed ? kAssumedChances : input.rank_chances).front());
  choice.report += reason;
  return choice;
}

void choose_in_stages(const PlannerInput& input, StrategyChoice& choice) {
  const auto forecasts = forecast_plans(input.costs, input.placing);
  if (!forecasts.ok()) {
    choice.report += forecasts.status().message() + ": parallel_tree\n";
    return;
  }
  choice.auto_choice = forecasts->front().plan;
  choice.report += std::to_string(input.placing.target_stages) + " stages, by simulation:";
  for (const ForecastPlan& forecast : *forecasts) {
    char rate[64];
    std::snprintf(rate, sizeof(rate), " %.1f tokens/s", forecast.tokens_per_s);
    choice.report +=
        (&forecast == &forecasts->front() ? " " : ", ") + describe(forecast.plan) + rate;
  }
  choice.report += "\n";
}

}  // namespace

StrategyChoice choose_strategy(const PlannerInput& input) {
  StrategyChoice choice = choose_sequential(input);
  if (!input.placing.concurrent) return choice;
  choice.auto_choice = {.strategy = "parallel_tree"};
  if (input.placing.target_stages > 1 && input.costs.measured()) {
    choose_in_stages(input, choice);
  } else {
    choice.report += "the draft has its own devices: parallel_tree\n";
  }
  return choice;
}

}  // namespace forerun
