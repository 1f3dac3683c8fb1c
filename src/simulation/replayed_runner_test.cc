#include "simulation/replayed_runner.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "exec/real_executor.h"
#include "simulation/offline_runner.h"
#include "strategies/speculation_plan.h"

namespace forerun {
namespace {

constexpr int32_t kReplayVocab = 500;

// Answers token 7 to everything, and that verifications failed.
class StubbornRunner : public StepRunner {
 public:
  explicit StubbornRunner(int* steps) : steps_(steps) { config_.vocab_size = kReplayVocab; }
  const ModelConfig& config() const override { return config_; }
  int32_t live_vocab() const override { return kReplayVocab; }
  int64_t kv_blocks() const override { return 64; }
  int64_t kv_block_bytes() const override { return 1; }
  Status run(const Step&, std::span<RowTask> tasks, std::span<RejectionTask>,
             const Meanwhile&) override {
    ++*steps_;
    for (RowTask& task : tasks) {
      task.result->token = 7;
      task.result->top.assign(3, {.token = 7});
      task.status = Status(StatusCode::kInternal, "a logit is NaN");
    }
    return {};
  }
  Status move_kv(const StepSequence&, std::span<const KvMove>) override { return {}; }

 private:
  ModelConfig config_;
  int* steps_;
};

struct Replayed {
  std::vector<OfflineResult> results;
  std::array<int, kNumRoles> steps{};  // Steps of the real runners
};

Replayed replay(const SpeculationOptions& strategy, double acceptance, bool skips_prompts) {
  AcceptanceModel model;
  model.vocab = model.draft_vocab = kReplayVocab;
  model.rank_hit = {acceptance};
  const ModelledAcceptance source(model);
  Replayed replayed;
  RealExecutorOptions options;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    const auto index = static_cast<size_t>(role);
    options.runners[index] = std::make_unique<ReplayedRunner>(
        std::make_unique<StubbornRunner>(&replayed.steps[index]), &source, skips_prompts);
  }
  options.budget.rows = 1000;
  RealExecutor executor(std::move(options));
  std::vector<OfflineRequest> requests(3);
  for (size_t index = 0; index < requests.size(); ++index) {
    requests[index].prompt.resize(100 + index);
    std::iota(requests[index].prompt.begin(), requests[index].prompt.end(),
              static_cast<TokenId>(index));
    requests[index].new_tokens = 60;
    requests[index].sampling.temperature = 0.0f;
  }
  const auto plan = resolve_speculation(strategy);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  auto results = run_offline(executor, requests,
                             {.max_active = 3,
                              .clock = [] { return 0.0; },
                              .make_strategy = [&](size_t) { return (*plan)->make_strategy({}); }});
  EXPECT_TRUE(results.ok()) << results.status().message();
  if (results.ok()) replayed.results = std::move(*results);
  return replayed;
}

SpeculationOptions chain(int32_t depth) {
  SpeculationOptions options{.strategy = "serial_tree"};
  options.shape = "chain";
  options.source = "model";
  options.draft_depth = depth;
  return options;
}

TEST(ReplayedRunner, TokensAndAcceptanceAreTheSourcesAndTheModelsAreRun) {
  const Replayed plain = replay({.strategy = "autoregressive"}, 0.0, false);
  for (const double acceptance : {0.0, 0.7, 1.0}) {
    const Replayed chains = replay(chain(3), acceptance, false);
    ASSERT_EQ(chains.results.size(), plain.results.size());
    int64_t emitted = 0;
    int64_t rounds = 0;
    for (size_t index = 0; index < chains.results.size(); ++index) {
      EXPECT_EQ(chains.results[index].tokens, plain.results[index].tokens);
      emitted += chains.results[index].stats.emitted_tokens;
      rounds += chains.results[index].stats.target_steps;
    }
    const double expected = 1 + acceptance + acceptance * acceptance + std::pow(acceptance, 3);
    EXPECT_NEAR(static_cast<double>(emitted) / static_cast<double>(rounds), expected,
                0.12 * expected);
    EXPECT_GT(chains.steps[static_cast<size_t>(Role::kDraft)], 0);
  }
}

TEST(ReplayedRunner, PromptsAreSkippedWhereThatIsAskedForAndChangeNoToken) {
  const Replayed whole = replay({.strategy = "autoregressive"}, 0.5, false);
  const Replayed skipped = replay({.strategy = "autoregressive"}, 0.5, true);
  for (size_t index = 0; index < whole.results.size(); ++index) {
    EXPECT_EQ(skipped.results[index].tokens, whole.results[index].tokens);
  }
  EXPECT_EQ(skipped.steps[0], whole.steps[0] - 1);
}

}  // namespace
}  // namespace forerun
