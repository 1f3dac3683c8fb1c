// Chooses splits on simulated machines: the times of a split's Steps are given, and loading one may
// fail.
#include "planner/choose_split.h"

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "simulation/simulated_executor.h"

namespace forerun {
namespace {

struct Machine {
  std::string name;
  double target_ms = 1.0;
  double draft_ms = 0.1;
  bool concurrent = false;
  Status failure = {};           // failure of loading it
  double measured_factor = 1.0;  // measured over real seconds of the target
};

StepCosts costs_of(const Machine& machine, double factor) {
  StepCosts costs;
  for (const int32_t rows : {1, 8, 64, 512}) {
    const double more = 1.0 + 0.02 * rows;
    costs.add(Role::kTarget, {rows}, 1e-3 * machine.target_ms * more * factor);
    costs.add(Role::kDraft, {rows}, 1e-3 * machine.draft_ms * more);
  }
  return costs;
}

class SimulatedSplits : public SplitModels {
 public:
  explicit SimulatedSplits(std::vector<Machine> machines) : machines_(std::move(machines)) {}

  SplitTrials trials() const {
    SplitTrials trials;
    for (const Machine& machine : machines_) {
      trials.splits.push_back({.name = machine.name, .concurrent = machine.concurrent});
    }
    trials.prompts = {{1, 2, 3}, {4, 5}};
    return trials;
  }
  Status load(size_t index) override {
    loads.push_back(index);
    executor_.reset();
    loaded_ = index;
    return machines_[index].failure;
  }
  Result<StepCosts> measure() override {
    const Machine& machine = machines_[loaded_];
    SimulatedExecutorOptions options;
    options.profile.costs = costs_of(machine, 1.0);
    options.profile.separate_devices = machine.concurrent;
    options.acceptance = std::make_shared<ModelledAcceptance>(AcceptanceModel{});
    executor_ = std::make_unique<SimulatedExecutor>(std::move(options));
    return costs_of(machine, machine.measured_factor);
  }
  Executor& executor() override { return *executor_; }
  double now_seconds() const override { return executor_->now_seconds(); }
  size_t loaded() const { return loaded_; }

  std::vector<size_t> loads;

 private:
  const std::vector<Machine> machines_;
  size_t loaded_ = 0;
  std::unique_ptr<SimulatedExecutor> executor_;
};

const Machine kSequential{.name = "sequential", .draft_ms = 0.35};
const Machine kHalves{.name = "halves", .target_ms = 1.1, .draft_ms = 0.3, .concurrent = true};
const Machine kSlow{.name = "slow", .target_ms = 9.0, .draft_ms = 5.0, .concurrent = true};
const Machine kBroken{.name = "broken",
                      .failure = Status(StatusCode::kInvalidArgument, "cannot be cut")};

TEST(ChooseSplit, KeepsTheFastestLoadedAndTriesNoHopelessOne) {
  SimulatedSplits models({kSequential, kSlow, kHalves});
  SplitTrials trials = models.trials();
  std::vector<double> progress;
  trials.on_progress = [&](double done) { progress.push_back(done); };
  const auto chosen = choose_split(models, trials);
  ASSERT_TRUE(chosen.ok()) << chosen.status().message();
  EXPECT_EQ(chosen->index, 2u);
  EXPECT_EQ(models.loaded(), 2u);
  EXPECT_EQ(chosen->plan.strategy, "parallel_tree");
  EXPECT_NEAR(chosen->costs.seconds(Role::kTarget, {1}), 1.02e-3 * 1.1, 1e-6);
  // Every split runs once, the two best once more; the one that is loaded runs first.
  EXPECT_EQ(models.loads, (std::vector<size_t>{0, 1, 2, 0, 2}));
  EXPECT_EQ(progress.size(), 5u);
  EXPECT_NE(chosen->report.find("kept: halves, parallel_tree"), std::string::npos)
      << chosen->report;
  std::istringstream lines(chosen->report);
  for (std::string line; std::getline(lines, line);) {
    const bool tried = line.find(" tried") != std::string::npos;
    if (line.starts_with("slow") || line.starts_with("sequential")) {
      EXPECT_EQ(tried, line.starts_with("sequential")) << line;
    }
  }
}

// The measurement overrates a split that is slow when it runs.
TEST(ChooseSplit, TheTrialDecidesNotTheForecast) {
  Machine flattered = kSlow;
  flattered.target_ms = 3.0;
  flattered.draft_ms = 0.1;
  flattered.measured_factor = 0.3;
  SimulatedSplits models({kSequential, flattered});
  const auto chosen = choose_split(models, models.trials());
  ASSERT_TRUE(chosen.ok()) << chosen.status().message();
  EXPECT_EQ(chosen->index, 0u);
  EXPECT_EQ(chosen->plan.strategy, "serial_tree");
}

TEST(ChooseSplit, LeavesOutWhatFailsAndSaysSo) {
  SimulatedSplits models({kSequential, kBroken});
  const auto chosen = choose_split(models, models.trials());
  ASSERT_TRUE(chosen.ok()) << chosen.status().message();
  EXPECT_EQ(chosen->index, 0u);
  EXPECT_EQ(models.loaded(), 0u) << "what is kept is loaded again";
  EXPECT_NE(chosen->report.find("broken is left out: cannot be cut"), std::string::npos)
      << chosen->report;
}

TEST(ChooseSplit, WhereNoneCanBeUsedTheFirstFailureIsReturned) {
  Machine other = kBroken;
  other.name = "other";
  other.failure = Status(StatusCode::kResourceExhausted, "no memory");
  SimulatedSplits models({kBroken, other});
  const auto chosen = choose_split(models, models.trials());
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(chosen.status().message().find("broken"), std::string::npos);
  EXPECT_NE(chosen.status().message().find("cannot be cut"), std::string::npos);
}

}  // namespace
}  // namespace forerun
