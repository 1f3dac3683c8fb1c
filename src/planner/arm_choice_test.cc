#include "planner/arm_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "planner/rank_speculation.h"

namespace forerun {
namespace {

// Requests that come and go, in virtual time.
struct Scenario {
  std::string name;
  int32_t max_requests = 4;
  double arrivals_per_s = 1.0;
  double min_context = 0.0;
  double max_context = 0.0;
  uint32_t max_tokens = 112;
  double usual_speedup = 1.0;  // factor of the usual arm over plain decoding
  double view_acceptance = 0.8;
};

void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

constexpr int32_t kRequests = 3000;
constexpr double kStepSeconds = 0.03;
constexpr int32_t kMeasuredSteps = 12;
constexpr int32_t kSettlingSteps = 3;
constexpr double kChangeSeconds = 0.06;  // time in which no token is decoded
constexpr double kPromptTokenSeconds = 20e-6;
constexpr double kMeasuringNoise = 0.03;  // standard deviation of a measurement

// A machine with Steps that take the cost model's time multiplied by a factor for each view, which
// the model does not know. Arm 0 is the usual way, the others are views.
class ArmMachine {
 public:
  // Tokens per second of all sequences together, one entry per arm.
  struct Rates {
    std::vector<ArmChoice::Forecast> predicted;
    std::vector<double> real;
    std::vector<bool> guesses;  // false if the view covers all of the text
  };

  ArmMachine(const Scenario& scenario, uint32_t seed) : scenario_(scenario) {
    for (const int32_t rows : {1, 1024}) costs_.add(Role::kTarget, {rows}, 4e-3 + 5e-6 * rows);
    costs_.set_slopes(Role::kTarget, {.per_kv_token = 3e-8});
    std::mt19937 random(seed);
    std::normal_distribution<double> error(0.0, 0.12);
    for (const int64_t budget : {256, 512, 1024, 2048}) {
      const double octaves = std::log2(static_cast<double>(budget) / 256.0);
      views_.push_back({.draft = {.budget_tokens = budget},
                        .view = "view",
                        .acceptance = 0.65 + 0.03 * octaves});
      errors_.push_back(std::exp(error(random)));
    }
  }

  int32_t arms() const { return static_cast<int32_t>(views_.size()) + 1; }

  // Contexts within a twelfth of each other count as equal.
  const Rates& rates(const BatchLoad& load) {
    const auto bucket = std::lround(8.0 * std::log2(static_cast<double>(load.context_tokens)));
    const auto [found, is_new] = rates_.try_emplace({load.sequences, bucket});
    if (is_new) found->second = rates_at(load);
    return found->second;
  }

  // Runs an arm for a Step, in which its guesses show their acceptance.
  void show_acceptance(int32_t arm) {
    if (arm == 0) return;
    double& known = views_[static_cast<size_t>(arm) - 1].acceptance;
    const double moved = 0.2 * (scenario_.view_acceptance - known);
    if (std::abs(moved) < 1e-3) return;
    known += moved;
    rates_.clear();
  }

 private:
  Rates rates_at(const BatchLoad& load) const {
    const double plain = forecast_plain(costs_, load).tokens_per_s;
    Rates made = {{{0, plain}}, {plain * scenario_.usual_speedup}, {true}};
    const auto ranked = best_of_each(rank_speculation(costs_, load, views_));
    for (int32_t idx = 0; idx + 1 < arms(); ++idx) {
      const auto best = std::find_if(ranked.begin(), ranked.end(),
                                     [&](const auto& each) { return each.candidate == idx; });
      const bool guesses = best != ranked.end();
      double real = plain;
      if (guesses) {
        const double assumed = views_[static_cast<size_t>(idx)].acceptance;
        real = best->tokens_per_s * errors_[static_cast<size_t>(idx)] *
               tokens_per_round(best->gamma, scenario_.view_acceptance) /
               tokens_per_round(best->gamma, assumed);
      }
      made.predicted.push_back({idx + 1, guesses ? best->tokens_per_s : plain, guesses});
      made.real.push_back(real);
      made.guesses.push_back(guesses);
    }
    return made;
  }

  const Scenario scenario_;
  StepCosts costs_;
  std::vector<SpeculationCandidate> views_;
  std::vector<double> errors_;  // one per view
  std::map<std::pair<int32_t, int64_t>, Rates> rates_;
};

// The requests of a scenario.
class Arrivals {
 public:
  explicit Arrivals(const Scenario& scenario)
      : scenario_(scenario), gap_(scenario.arrivals_per_s) {}

  // Admits the requests that have arrived; returns false once all have ended.
  bool admit(double& now) {
    while (arrived_ < kRequests && next_ <= now) arrive();
    while (!waiting_.empty() && std::ssize(running_) < scenario_.max_requests) {
      now += waiting_.front().context * kPromptTokenSeconds;
      running_.push_back(waiting_.front());
      waiting_.pop_front();
    }
    if (!running_.empty()) return true;
    if (arrived_ == kRequests) return false;
    now = next_;
    return admit(now);
  }

  BatchLoad load() const {
    double context = 0.0;
    for (const Request& each : running_) context += each.context;
    const auto sequences = static_cast<int32_t>(running_.size());
    return {.sequences = sequences, .context_tokens = std::llround(context / sequences)};
  }

  void decode(double tokens) {
    const double each_gains = tokens / static_cast<double>(running_.size());
    for (Request& each : running_) {
      each.left -= each_gains;
      each.context += each_gains;
    }
    std::erase_if(running_, [](const Request& each) { return each.left <= 0.0; });
  }

 private:
  struct Request {
    double context = 0.0;
    double left = 0.0;
  };

  void arrive() {
    const double share = std::uniform_real_distribution<double>(0.0, 1.0)(random_);
    const double ratio = scenario_.max_context / scenario_.min_context;
    waiting_.push_back({scenario_.min_context * std::pow(ratio, share),
                        16.0 + static_cast<double>(random_() % scenario_.max_tokens)});
    next_ += gap_(random_);
    ++arrived_;
  }

  const Scenario scenario_;
  std::mt19937 random_{17};
  std::exponential_distribution<double> gap_;
  std::vector<Request> running_;
  std::deque<Request> waiting_;
  double next_ = 0.0;
  int32_t arrived_ = 0;
};

struct Outcome {
  double seconds = 0.0;  // seconds of decoding
  double trial_seconds = 0.0;
  double tokens = 0.0;
  std::vector<double> fixed_tokens;  // tokens that each arm alone would have decoded at these loads
  int32_t changes = 0;
};

bool alike(const BatchLoad& a, const BatchLoad& b) {
  const double ratio = static_cast<double>(a.context_tokens) /
                       static_cast<double>(std::max<int64_t>(b.context_tokens, 1));
  return a.sequences == b.sequences && std::abs(std::log(ratio)) < 0.15;
}

// Decodes all requests of a scenario with the arms that ArmChoice chooses.
class Decoding {
 public:
  Decoding(const Scenario& scenario, uint32_t seed)
      : machine_(scenario, seed),
        arrivals_(scenario),
        periods_(static_cast<size_t>(machine_.arms())) {
    std::vector<ArmRates::Belief> priors(periods_.size(), {0.0, 0.15});
    priors.front() = {0.1, 0.3};
    choice_.emplace(std::move(priors));
    outcome_.fixed_tokens.resize(periods_.size());
  }

  Outcome run() {
    for (double now = 0.0; arrivals_.admit(now);) now += step(arrivals_.load());
    outcome_.trial_seconds = choice().trial_seconds();
    return outcome_;
  }

 private:
  struct Period {
    int32_t steps = 0;
    double tokens = 0.0;
    double predicted = 0.0;
  };

  ArmChoice& choice() { return *choice_; }
  Period& period() { return periods_[static_cast<size_t>(choice().running())]; }

  // Returns whether another arm runs now.
  bool choose(const BatchLoad& load) {
    const bool is_measured = period().steps >= kMeasuredSteps;
    if (is_measured) {
      const Period ended = std::exchange(period(), {});
      choice().add(load, ended.tokens, ended.predicted);
    }
    if (!is_measured && alike(load, decided_load_)) return false;
    decided_load_ = load;
    const int32_t before = choice().running();
    choice().choose(
        load, machine_.rates(load).predicted, outcome_.seconds - decided_,
        {.trial_seconds = kMeasuredSteps * kStepSeconds, .change_seconds = kChangeSeconds});
    decided_ = outcome_.seconds;
    return choice().running() != before;
  }

  // Returns the seconds that it took.
  double step(const BatchLoad& load) {
    double seconds = kStepSeconds;
    if (choose(load)) {
      ++outcome_.changes;
      settling_ = kSettlingSteps;
      seconds += kChangeSeconds;
    }
    const ArmMachine::Rates& rates = machine_.rates(load);
    const auto arm = static_cast<size_t>(choice().running());
    const double tokens = rates.real[arm] * kStepSeconds;
    for (size_t each = 0; each < rates.real.size(); ++each) {
      outcome_.fixed_tokens[each] += rates.real[each] * seconds;
    }
    outcome_.tokens += tokens;
    outcome_.seconds += seconds;
    if (settling_ > 0) {
      --settling_;
    } else if (rates.guesses[arm]) {
      ++period().steps;
      period().tokens += tokens * std::exp(noise_(random_));
      period().predicted += rates.predicted[arm].tokens_per_s * kStepSeconds;
    }
    arrivals_.decode(tokens);
    machine_.show_acceptance(choice().running());
    return seconds;
  }

  ArmMachine machine_;
  Arrivals arrivals_;
  std::mt19937 random_{5};
  std::normal_distribution<double> noise_{0.0, kMeasuringNoise* std::sqrt(kMeasuredSteps)};
  std::optional<ArmChoice> choice_;
  std::vector<Period> periods_;  // one entry per arm
  Outcome outcome_;
  BatchLoad decided_load_;
  double decided_ = 0.0;
  int32_t settling_ = 0;
};

class ArmChoiceArrivals : public ::testing::TestWithParam<Scenario> {};

// Runs 20 random machines whose factors the cost model does not know.
TEST_P(ArmChoiceArrivals, IsNearlyTheBestFixedArmInHindsight) {
  constexpr uint32_t kDraws = kSanitized ? 4 : 20;
  uint32_t good = 0;
  for (uint32_t seed = 1; seed <= kDraws; ++seed) {
    const Outcome outcome = Decoding(GetParam(), seed).run();
    const double best = *std::max_element(outcome.fixed_tokens.begin(), outcome.fixed_tokens.end());
    good += outcome.tokens >= 0.97 * best;
    EXPECT_GE(outcome.tokens, 0.96 * best) << seed;
    EXPECT_LE(outcome.trial_seconds, 0.02 * outcome.seconds) << seed;
    // A change every four seconds at most.
    EXPECT_LE(outcome.changes, outcome.seconds / 4.0) << seed;
  }
  EXPECT_GE(good, kDraws - kDraws / 10);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, ArmChoiceArrivals,
                         ::testing::Values(Scenario{.name = "four of 32k, short answers",
                                                    .max_requests = 4,
                                                    .min_context = 32'000,
                                                    .max_context = 32'100},
                                           Scenario{.name = "eight of 32k, short answers",
                                                    .max_requests = 8,
                                                    .min_context = 32'000,
                                                    .max_context = 32'100},
                                           Scenario{.name = "24 of 8k",
                                                    .max_requests = 24,
                                                    .min_context = 8000,
                                                    .max_context = 8100,
                                                    .max_tokens = 400},
                                           Scenario{.name = "from short to 8k",
                                                    .max_requests = 16,
                                                    .min_context = 100,
                                                    .max_context = 8000,
                                                    .max_tokens = 256},
                                           Scenario{.name = "texts that repeat themselves",
                                                    .max_requests = 8,
                                                    .arrivals_per_s = 0.5,
                                                    .min_context = 16'000,
                                                    .max_context = 32'000,
                                                    .max_tokens = 256,
                                                    .usual_speedup = 1.8},
                                           Scenario{.name = "views that guess badly",
                                                    .max_requests = 8,
                                                    .arrivals_per_s = 0.5,
                                                    .min_context = 16'000,
                                                    .max_context = 32'000,
                                                    .max_tokens = 256,
                                                    .view_acceptance = 0.3}));

TEST(ArmChoice, AnArmThatCannotRunIsLeft) {
  ArmChoice choice({{0.0, 0.1}, {0.0, 0.05}});
  const BatchLoad load = {.sequences = 8, .context_tokens = 8000};
  const ArmChoice::Costs costs = {.trial_seconds = 0.5, .change_seconds = 0.05};
  const std::vector<ArmChoice::Forecast> both = {{0, 100.0}, {1, 200.0}};
  for (int32_t each = 0; each < 20; ++each) choice.choose(load, both, 1.0, costs);
  EXPECT_EQ(choice.running(), 1);
  EXPECT_EQ(choice.choose(load, {{0, 100.0}}, 1.0, costs), 0);
}

// Two loads alternate: at one the other arm is faster, at the other hardly slower.
TEST(ArmChoice, WhatABetterArmWouldSaveIsSummedOverLoads) {
  ArmChoice choice({{0.0, 0.01}, {0.0, 0.01}});
  const ArmChoice::Costs costs = {.trial_seconds = 0.5, .change_seconds = 0.05};
  for (int32_t turn = 0; turn < 4; ++turn) {
    choice.choose({8, 8000}, {{0, 100.0}, {1, 150.0}}, 0.2, costs);
    choice.choose({2, 8000}, {{0, 100.0}, {1, 98.0}}, 0.2, costs);
  }
  choice.choose({8, 8000}, {{0, 100.0}, {1, 150.0}}, 0.2, costs);
  EXPECT_EQ(choice.running(), 1);
}

TEST(ArmChoice, AnotherArmIsTakenWithConfidenceOnly) {
  const ArmChoice::Costs costs = {.trial_seconds = 0.5, .change_seconds = 0.05};
  for (const double deviation : {0.3, 0.02}) {
    ArmChoice choice({{0.0, 0.02}, {0.0, deviation}});
    const std::vector<ArmChoice::Forecast> both = {{0, 100.0}, {1, 110.0}};
    for (int32_t each = 0; each < 50; ++each) choice.choose({8, 8000}, both, 1.0, costs);
    EXPECT_EQ(choice.running(), deviation < 0.1 ? 1 : 0) << deviation;
  }
}

TEST(ArmChoice, AnArmWithoutGuessesThatPayIsNotTried) {
  const BatchLoad load = {.sequences = 8, .context_tokens = 8000};
  for (const bool may_exceed : {true, false}) {
    ArmChoice arms({{0.0, 0.09}, {0.0, 0.09}});
    bool was_tried = false;
    for (int look = 0; look < 200; ++look) {
      arms.add(load, 100.0, 100.0);
      was_tried |= arms.choose(load,
                               {{.arm = 0, .tokens_per_s = 100.0},
                                {.arm = 1, .tokens_per_s = 100.0, .may_exceed = may_exceed}},
                               0.1, {.trial_seconds = 0.1, .change_seconds = 0.01}) == 1;
    }
    EXPECT_EQ(was_tried, may_exceed);
  }
}

// This must hold for short Steps, too: the first seconds of an engine may be all that it decodes.
TEST(ArmChoice, TheFirstSecondsAreNotSpentOnTrials) {
  const ArmChoice::Costs costs = {.trial_seconds = 0.03, .change_seconds = 0.002};
  ArmChoice choice({{0.0, 0.09}, {0.0, 0.09}, {0.0, 0.09}, {0.0, 0.03}});
  const BatchLoad load = {.sequences = 1, .context_tokens = 300};
  constexpr double kMeasured = 0.01;
  double seconds = 0.0;
  for (; seconds < 2.0; seconds += kMeasured) {
    choice.add(load, seconds < 1.0 ? 9.0 : 11.0, 10.0);
    choice.choose(load, {{0, 1000.0}, {1, 980.0}, {2, 990.0}, {3, 950.0}}, kMeasured, costs);
  }
  EXPECT_GT(choice.trial_seconds(), 0.0);
  EXPECT_LT(choice.trial_seconds(), 4.0 * costs.trial_seconds + 0.014 * seconds + kMeasured);
}

TEST(ArmChoice, ATrialEndsWhereItsArmDoesNotSpeculateOrIsNeverMeasured) {
  const BatchLoad load = {.sequences = 8, .context_tokens = 8000};
  const ArmChoice::Costs costs = {.trial_seconds = 0.5, .change_seconds = 0.05};
  const std::vector<ArmChoice::Forecast> both = {{0, 100.0}, {1, 100.0}};
  for (const bool speculates : {false, true}) {
    ArmChoice choice({{0.0, 0.1}, {0.0, 0.3}});
    choice.add(load, 50.0, 50.0);
    ASSERT_EQ(choice.choose(load, both, 0.5, costs), 1);
    EXPECT_EQ(choice.choose(load, {{0, 100.0}, {1, 100.0, speculates}}, 0.1, costs),
              speculates ? 1 : 0);
    EXPECT_EQ(choice.choose(load, both, 2.0, costs), 0);
    EXPECT_NEAR(choice.trial_seconds(), speculates ? 2.1 : 0.1, 1e-9);
  }
}

TEST(ArmChoice, ATrialGoesOnAtOtherLoads) {
  ArmChoice choice({{0.0, 0.1}, {0.0, 0.3}});
  const BatchLoad load = {.sequences = 8, .context_tokens = 8000};
  const ArmChoice::Costs costs = {.trial_seconds = 0.5, .change_seconds = 0.05};
  const std::vector<ArmChoice::Forecast> both = {{0, 100.0}, {1, 100.0}};
  choice.add(load, 50.0, 50.0);
  ASSERT_EQ(choice.choose(load, both, 0.5, costs), 1);
  EXPECT_TRUE(choice.is_in_trial());
  for (int32_t sequences = 1; sequences < 8; ++sequences) {
    EXPECT_EQ(choice.choose({sequences, 8000}, both, 0.1, costs), 1);
  }
  choice.add(load, 25.0, 50.0);  // half as fast as predicted
  EXPECT_EQ(choice.choose(load, both, 0.5, costs), 0);
  EXPECT_FALSE(choice.is_in_trial());
}

}  // namespace
}  // namespace forerun
