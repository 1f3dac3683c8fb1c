// Compares `auto` with plain decoding for many requests that share Steps, in virtual time: equally
// fast where speculation cannot pay, and faster where rows are nearly free.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/sanitized.h"
#include "simulation/offline_runner.h"
#include "simulation/simulated_executor.h"
#include "simulation/simulated_text.h"
#include "strategies/acceptance.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

// Milliseconds of a Step: target_fixed or draft_fixed, plus target_row or draft_row for every row
// beyond the first `free_rows` ones.
struct Machine {
  std::string name;
  double target_fixed, target_row, draft_fixed, draft_row;
  int32_t free_rows = 1;

  StepProfile profile() const {
    StepProfile profile;
    for (const int32_t rows : {1, free_rows, 1024}) {
      const int32_t paid = std::max(0, rows - free_rows);
      profile.costs.add(Role::kTarget, {rows}, 1e-3 * (target_fixed + target_row * paid));
      profile.costs.add(Role::kDraft, {rows}, 1e-3 * (draft_fixed + draft_row * paid));
    }
    return profile;
  }
};

// Two cores, where nearly every row costs its arithmetic, and a GPU.
const Machine kProcessor = {"processor", 0.7, 0.22, 0.2, 0.02};
const Machine kGpu = {"GPU", 4.0, 0.02, 0.5, 0.004, 64};

class ManyRequests {
 public:
  ManyRequests(const Machine& machine, const SimulatedText& text, int32_t requests)
      : requests_(static_cast<size_t>(requests)) {
    SimulatedExecutorOptions options;
    options.profile = machine.profile();
    options.acceptance = std::make_shared<ModelledAcceptance>(text.models(11));
    live_.set(options.profile.costs);
    options.costs = &live_;
    executor_ = std::make_unique<SimulatedExecutor>(std::move(options));
    for (size_t idx = 0; idx < requests_.size(); ++idx) {
      // No two prompts are equal.
      for (size_t token = 0; token < 40; ++token) {
        requests_[idx].prompt.push_back(static_cast<TokenId>((idx * 41 + token * 7) % 4000));
      }
      requests_[idx].new_tokens = 160;
    }
  }

  // Returns the tokens per second of all requests, prompts included, with `options`.
  double throughput(const SpeculationOptions& options) {
    OfflineOptions offline_options;
    offline_options.max_active = static_cast<int32_t>(requests_.size());
    offline_options.clock = [this] { return executor_->now_seconds(); };
    offline_options.costs = &live_;
    offline_options.make_strategy = [&](size_t) {
      return resolve_speculation(options).value()->make_strategy(
          {.shared = shared_, .costs = live_.table()});
    };
    const double begin = executor_->now_seconds();
    const auto results = run_offline(*executor_, requests_, offline_options);
    EXPECT_TRUE(results.ok()) << results.status().message();
    const double tokens = 160.0 * static_cast<double>(requests_.size());
    return tokens / (executor_->now_seconds() - begin);
  }
  double plain() { return throughput({.strategy = "autoregressive"}); }
  double with_auto() { return throughput({.strategy = "auto"}); }

 private:
  std::vector<OfflineRequest> requests_;
  LiveCosts live_;
  std::unique_ptr<SimulatedExecutor> executor_;
  std::shared_ptr<SharedAcceptance> shared_ = std::make_shared<SharedAcceptance>();
};

// `cold`: acceptance is unknown; `warm`: it is known from as many requests.
void expect_never_slower(const Machine& machine, double cold, double warm) {
  for (const SimulatedText& text : simulated_texts()) {
    for (const int32_t requests : {1, 2, 4, 8, 16, 32, 64}) {
      if (kSanitized && requests > 4) break;
      SCOPED_TRACE(text.name + ", " + std::to_string(requests));
      ManyRequests load(machine, text, requests);
      const double plain = load.plain();
      EXPECT_GE(load.with_auto(), cold * plain);
      EXPECT_GE(load.with_auto(), warm * plain);
    }
  }
}

TEST(PlayBatches, AutoCostsNothingWhereRowsCostTheirArithmetic) {
  expect_never_slower(kProcessor, 0.98, 0.98);
}

// All requests arrive at once and are short, so that trials on the first of them matter.
TEST(PlayBatches, AutoTriesLittleWhereRowsAreNearlyFree) { expect_never_slower(kGpu, 0.95, 0.95); }

TEST(PlayBatches, AutoIsFasterWhereRowsAreNearlyFree) {
  const SimulatedText code = simulated_texts()[0];
  for (const int32_t requests : {1, 4, 8, 16}) {
    SCOPED_TRACE(requests);
    ManyRequests load(kGpu, code, requests);
    EXPECT_GE(load.with_auto(), 1.3 * load.plain());
  }
}

// Drafting pays if all requests draft at once, for any number of them, and deep guesses only for
// some.
TEST(PlayBatches, DraftingTogetherPaysInABatch) {
  const std::vector<SimulatedText> texts = simulated_texts();
  for (const char* name : {"code sampled", "prose sampled"}) {
    const auto text = std::find_if(texts.begin(), texts.end(), [&](const SimulatedText& candidate) {
      return candidate.name == name;
    });
    ASSERT_NE(text, texts.end());
    SCOPED_TRACE(name);
    ManyRequests load(kGpu, *text, 32);
    EXPECT_GE(load.with_auto(), 1.1 * load.plain());
  }
}

// A single request would gain by drafting alone, but at the cost of all the others.
TEST(PlayBatches, ADraftOfTheTargetsSpeedIsLeftAlone) {
  Machine machine = kGpu;
  machine.draft_fixed = machine.target_fixed;
  ManyRequests load(machine, simulated_texts()[0], 16);
  const double plain = load.plain();
  load.with_auto();
  EXPECT_GE(load.with_auto(), 0.97 * plain);
}

// Steps in which some requests draft and others verify have rows of both kinds.
TEST(PlayBatches, RoundsThroughAViewEndInTheSameSteps) {
  constexpr int32_t kRequests = 8;
  constexpr int32_t kDepth = 3;
  const SimulatedText text = simulated_texts()[0];
  int32_t together = 0;
  int32_t mixed = 0;
  SimulatedExecutorOptions options;
  options.profile = kGpu.profile();
  options.acceptance = std::make_shared<ModelledAcceptance>(text.models(11));
  options.on_step = [&](const StepRecord& record) {
    if (record.role != Role::kTarget || record.sequences != kRequests) return;
    ++(record.rows == kRequests || record.rows == (kDepth + 1) * kRequests ? together : mixed);
  };
  SimulatedExecutor executor(std::move(options));
  std::vector<OfflineRequest> requests(kRequests);
  for (size_t idx = 0; idx < requests.size(); ++idx) {
    requests[idx].prompt.assign(300 + 150 * idx, static_cast<TokenId>(idx));
    requests[idx].new_tokens = 200;
  }
  OfflineOptions offline;
  offline.max_active = kRequests;
  offline.clock = [&] { return executor.now_seconds(); };
  offline.make_strategy = [&](size_t) {
    const SpeculationOptions sparse = {
        .strategy = "sparse_self", .draft_depth = kDepth, .view_budget = 192};
    return resolve_speculation(sparse).value()->make_strategy({});
  };
  ASSERT_TRUE(run_offline(executor, requests, offline).ok());
  EXPECT_GT(together, 100);
  // Some Steps are mixed: while prompts are read, and at the end of a text.
  EXPECT_LT(mixed, together / 8);
}

}  // namespace
}  // namespace forerun
