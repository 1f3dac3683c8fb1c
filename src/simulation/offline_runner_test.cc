// Strategies on the simulated executor, by itself and compared with the emulated one.
#include "simulation/offline_runner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <numeric>

#include "checkpoint/checkpoint.h"
#include "checkpoint/testing.h"
#include "exec/decoder_step_runner.h"
#include "exec/emulated/step_emulator.h"
#include "exec/real_executor.h"
#include "model/cpu_decoder.h"
#include "simulation/recorded_acceptance.h"
#include "simulation/recording_runner.h"
#include "simulation/simulated_executor.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

StepProfile profile_of(double target_ms, double draft_ms, bool separate) {
  StepProfile profile;
  profile.name = "test";
  profile.separate_devices = separate;
  profile.costs.add(Role::kTarget, {8, 0}, 1e-3 * target_ms);
  profile.costs.add(Role::kTarget, {16, 0}, 1.3e-3 * target_ms);
  profile.costs.add(Role::kDraft, {8, 0}, 1e-3 * draft_ms);
  return profile;
}

std::vector<OfflineRequest> requests_of(size_t count, int32_t new_tokens) {
  std::vector<OfflineRequest> requests(count);
  for (size_t index = 0; index < count; ++index) {
    requests[index].prompt.resize(5 + 3 * index);
    std::iota(requests[index].prompt.begin(), requests[index].prompt.end(),
              static_cast<TokenId>(10 + index));
    requests[index].new_tokens = new_tokens;
    requests[index].sampling.temperature = 0.0f;
  }
  return requests;
}

SpeculationOptions best_tree() {
  SpeculationOptions options{.strategy = "serial_tree"};
  options.shape = "best";
  options.verify_tokens = 8;
  options.draft_width = 8;
  options.draft_depth = 3;
  return options;
}

OfflineOptions offline_options(const SpeculationOptions& strategy, std::function<double()> clock,
                               int32_t max_active = 1) {
  return {.max_active = max_active,
          .clock = std::move(clock),
          .make_strategy = [plan = resolve_speculation(strategy).value()](size_t) {
            return plan->make_strategy({});
          }};
}

class SimulatedPlay : public ::testing::Test {
 protected:
  SimulatedExecutor& make(const StepProfile& profile, double host_seconds = 0.0) {
    AcceptanceModel model;
    model.vocab = model.draft_vocab = 5000;
    SimulatedExecutorOptions options;
    options.profile = profile;
    options.acceptance = std::make_shared<ModelledAcceptance>(model);
    options.host_seconds = host_seconds;
    options.trace = true;
    options.on_step = [this](const StepRecord& record) { records_.push_back(record); };
    executor_ = std::make_unique<SimulatedExecutor>(std::move(options));
    return *executor_;
  }
  std::vector<OfflineResult> run(const SpeculationOptions& strategy,
                                 const std::vector<OfflineRequest>& requests,
                                 int32_t max_active = 1) {
    auto results =
        run_offline(*executor_, requests,
                    offline_options(
                        strategy, [this] { return executor_->now_seconds(); }, max_active));
    EXPECT_TRUE(results.ok()) << results.status().message();
    return results.ok() ? std::move(*results) : std::vector<OfflineResult>{};
  }
  std::unique_ptr<SimulatedExecutor> executor_;
  std::vector<StepRecord> records_;
};

TEST_F(SimulatedPlay, PlainDecodingTakesAStepAToken) {
  make(profile_of(10, 3, false), 0.5e-3);
  SpeculationOptions plain{.strategy = "autoregressive"};
  const auto results = run(plain, requests_of(1, 41));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].tokens.size(), 41u);
  EXPECT_NEAR(results[0].last_token_seconds - results[0].first_token_seconds, 40 * 10.5e-3, 1e-9);
  EXPECT_EQ(executor_->kv_usage(Role::kTarget).used_blocks, 0);
}

TEST_F(SimulatedPlay, TreesGiveThePlainTokensAndTheirStepsAddUp) {
  const auto requests = requests_of(3, 100);
  make(profile_of(10, 3, false));
  SpeculationOptions plain{.strategy = "autoregressive"};
  const auto expected = run(plain, requests);
  make(profile_of(10, 3, false));
  records_.clear();
  const auto results = run(best_tree(), requests);
  ASSERT_EQ(results.size(), 3u);
  for (size_t index = 0; index < results.size(); ++index) {
    EXPECT_EQ(results[index].tokens, expected[index].tokens);
    EXPECT_GT(results[index].tokens_per_step(), 1.5);
  }
  // On shared devices one Step runs at a time.
  int64_t end_ns = 0;
  double seconds = 0.0;
  for (const StepRecord& record : records_) {
    EXPECT_GE(record.start_ns, end_ns);
    end_ns = record.end_ns;
    seconds += record.seconds;
  }
  EXPECT_NEAR(seconds, executor_->now_seconds(), 1e-6);
}

TEST_F(SimulatedPlay, RequestsShareStepsAndFinishSoonerTogether) {
  const auto requests = requests_of(8, 60);
  make(profile_of(10, 3, false));
  const auto alone = run(best_tree(), requests);
  const double alone_seconds = executor_->now_seconds();
  make(profile_of(10, 3, false));
  const auto together = run(best_tree(), requests, 8);
  ASSERT_EQ(together.size(), alone.size());
  for (size_t index = 0; index < alone.size(); ++index) {
    EXPECT_EQ(together[index].tokens, alone[index].tokens);
  }
  EXPECT_LT(executor_->now_seconds(), 0.7 * alone_seconds);
  EXPECT_EQ(executor_->kv_usage(Role::kTarget).used_blocks, 0);
  EXPECT_EQ(executor_->kv_usage(Role::kDraft).used_blocks, 0);
}

TEST_F(SimulatedPlay, SeparateDevicesRunConcurrently) {
  make(profile_of(10, 3, true));
  ASSERT_TRUE(executor_->open(1, {.sampling = {}, .prompt_tokens = 1, .max_tokens = 50}).ok());
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    WorkItem item;
    item.sequence = 1;
    item.role = role;
    item.rows.resize(1);
    item.rows[0].want = Want::kSample;
    executor_->submit(std::move(item));
  }
  const auto first = executor_->next({});
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->role, Role::kDraft);
  EXPECT_EQ(executor_->now_ns(), 3'000'000);
  const auto second = executor_->next({});
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(executor_->now_ns(), 10'000'000);
  EXPECT_FALSE(executor_->next({}).has_value());
}

TEST_F(SimulatedPlay, AResultOfAClosedSequenceIsNotTheNextOnesOfItsId) {
  make(profile_of(10, 30, true));
  const SequenceSpec spec{.sampling = {}, .prompt_tokens = 1, .max_tokens = 50};
  const auto submit = [&](Role role, uint64_t tag) {
    WorkItem item;
    item.sequence = 1;
    item.role = role;
    item.tag = tag;
    item.rows.resize(1);
    item.rows[0].want = Want::kSample;
    executor_->submit(std::move(item));
  };
  ASSERT_TRUE(executor_->open(1, spec).ok());
  submit(Role::kDraft, 6);
  submit(Role::kTarget, 7);
  EXPECT_EQ(executor_->next({})->tag, 7u);
  executor_->close(1);
  ASSERT_TRUE(executor_->open(1, spec).ok());
  submit(Role::kDraft, 8);
  const auto drafted = executor_->next({});
  ASSERT_TRUE(drafted.has_value());
  EXPECT_EQ(drafted->tag, 8u);
  EXPECT_EQ(executor_->now_ns(), 60'000'000);
}

TEST_F(SimulatedPlay, AFailureIsReportedAndLeavesNothingOpen) {
  StepProfile profile;  // profile of a target alone
  profile.costs.add(Role::kTarget, {8, 0}, 10e-3);
  make(profile);
  const auto requests = requests_of(1, 10);
  const auto results =
      run_offline(*executor_, requests,
                  offline_options(best_tree(), [this] { return executor_->now_seconds(); }));
  ASSERT_FALSE(results.ok());
  EXPECT_NE(results.status().message().find("draft, which has no model"), std::string::npos);
  EXPECT_EQ(executor_->kv_usage(Role::kTarget).used_blocks, 0);
  EXPECT_FALSE(run_offline(*executor_, std::vector<OfflineRequest>(1), {}).ok());
}

// A toy pair behind a real executor; an emulator, if there is one, stretches its Steps.
struct ToyMachine {
  ToyMachine() {
    ToySpec spec;
    spec.dtype = DType::kBf16;
    spec.logit_std = 3.0f;
    load(Role::kTarget, spec);
    spec.perturbation = 0.15f;
    load(Role::kDraft, spec);
  }
  void load(Role role, const ToySpec& spec) {
    const auto index = static_cast<size_t>(role);
    const auto path = dir.path() / role_name(role);
    EXPECT_TRUE(write_toy_checkpoint(path, spec).ok());
    checkpoints[index] = std::make_unique<Checkpoint>(Checkpoint::open(path).value());
    CpuDecoderOptions options;
    options.kv_blocks = 64;
    decoders[index] =
        CpuDecoder::load(*checkpoints[index], device.get(), std::move(options)).value();
  }
  // `recording`: receives a recorder of the draft; may be null.
  std::unique_ptr<RealExecutor> executor(StepEmulator* emulator, RecordingRunner** recording) {
    RealExecutorOptions options;
    for (const Role role : {Role::kTarget, Role::kDraft}) {
      const auto index = static_cast<size_t>(role);
      std::unique_ptr<StepRunner> runner = std::make_unique<DecoderStepRunner>(
          decoders[index].get(), device.get(), decoders[index]->config().vocab_size);
      if (emulator != nullptr) runner = emulator->wrap(role, std::move(runner));
      if (recording != nullptr && role == Role::kDraft) {
        auto listener = std::make_unique<RecordingRunner>(std::move(runner));
        *recording = listener.get();
        runner = std::move(listener);
      }
      options.runners[index] = std::move(runner);
    }
    if (emulator != nullptr) options.threaded.fill(emulator->profile().separate_devices);
    return std::make_unique<RealExecutor>(std::move(options));
  }

  TempDir dir;
  std::unique_ptr<CpuDeviceGroup> device = CpuDeviceGroup::create_unpinned({1}).value();
  std::array<std::unique_ptr<Checkpoint>, kNumRoles> checkpoints;
  std::array<std::unique_ptr<Decoder>, kNumRoles> decoders;
};

// A clock that advances only by sleep: arithmetic takes no time, at any load of this machine.
class SleptClock : public SleepClock {
 public:
  time_point now() override { return now_; }
  void sleep_until(time_point when) override { now_ = when; }
  double seconds() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }

 private:
  time_point now_{};
};

// Runs the same requests once with real models whose Steps sleep for their time, and once in
// virtual time with the recorded answers of these models. (bench/measure_engine.py compares with a
// real clock.)
TEST(SimulatedAndEmulated, AgreeOnEveryTokenStepAndRate) {
  const StepProfile profile = profile_of(10.48, 3.25, false);
  const auto requests = requests_of(2, 60);
  ToyMachine machine;
  const auto no_clock = [] { return 0.0; };

  RecordedAcceptance recorded(machine.decoders[0]->config().vocab_size);
  RecordingRunner* recording = nullptr;
  const auto real = machine.executor(nullptr, &recording);
  SpeculationOptions plain{.strategy = "autoregressive"};
  const auto texts = run_offline(*real, requests, offline_options(plain, no_clock));
  ASSERT_TRUE(texts.ok()) << texts.status().message();
  for (size_t index = 0; index < requests.size(); ++index) {
    std::vector<TokenId> tokens = requests[index].prompt;
    tokens.insert(tokens.end(), (*texts)[index].tokens.begin(), (*texts)[index].tokens.end());
    SequenceSpec spec;
    spec.sampling = requests[index].sampling;
    spec.max_tokens = 200;
    auto text = record_acceptance(*real, 1, spec, tokens,
                                  static_cast<int32_t>(requests[index].prompt.size()));
    ASSERT_TRUE(text.ok()) << text.status().message();
    ASSERT_TRUE(
        run_offline(*real, {&requests[index], 1}, offline_options(best_tree(), no_clock)).ok());
    recording->take_branches(16, *text);
    ASSERT_FALSE(text->branches.empty());
    ASSERT_TRUE(recorded.add(std::move(*text)).ok());
  }

  SimulatedExecutorOptions options;
  options.profile = profile;
  options.acceptance = std::make_shared<RecordedAcceptance>(recorded);
  SimulatedExecutor simulated(std::move(options));
  const auto virtual_run = run_offline(
      simulated, requests, offline_options(best_tree(), [&] { return simulated.now_seconds(); }));
  ASSERT_TRUE(virtual_run.ok()) << virtual_run.status().message();

  SleptClock clock;
  StepEmulator emulator(profile, true, &clock);
  const auto executor = machine.executor(&emulator, nullptr);
  const auto emulated = run_offline(*executor, requests,
                                    offline_options(best_tree(), [&] { return clock.seconds(); }));
  ASSERT_TRUE(emulated.ok()) << emulated.status().message();
  EXPECT_EQ(emulator.stats().late_steps, 0);
  for (size_t index = 0; index < requests.size(); ++index) {
    const OfflineResult& slept = (*emulated)[index];
    const OfflineResult& skipped = (*virtual_run)[index];
    EXPECT_EQ(slept.tokens, (*texts)[index].tokens);
    EXPECT_EQ(slept.tokens, skipped.tokens);
    EXPECT_EQ(slept.stats.target_steps, skipped.stats.target_steps);
    EXPECT_EQ(slept.stats.draft_steps, skipped.stats.draft_steps);
    EXPECT_GT(slept.tokens_per_step(), 1.2);
    EXPECT_NEAR(slept.tokens_per_s() / skipped.tokens_per_s(), 1.0, 1e-6);
  }
}

class SimulatedStagesPlay : public SimulatedPlay {
 protected:
  // Returns a profile of four stages of 10 ms, links of 1 ms, a draft of 4 ms.
  static StepProfile four_stages() {
    StepProfile profile = profile_of(40.0, 4.0, /*separate=*/true);
    profile.costs.add(Role::kTarget, {64, 0}, 52e-3);
    profile.stages = {
        .stages = 4, .layers = 5, .row_bytes = 1000, .bytes_per_s = 1e9, .latency_seconds = 1e-3};
    return profile;
  }
};

TEST_F(SimulatedStagesPlay, PlainDecodingWaitsForAllStagesAndLinks) {
  SimulatedExecutor& executor = make(four_stages(), /*host_seconds=*/0.5e-3);
  const auto results = run({.strategy = "autoregressive"}, requests_of(1, 20));
  EXPECT_NEAR(1.0 / results[0].tokens_per_s(), 40e-3 + 4e-3 + 0.5e-3, 1e-4);
  EXPECT_EQ(executor.kv_usage(Role::kTarget).used_blocks, 0);
}

TEST_F(SimulatedStagesPlay, RequestsFillTheStages) {
  make(four_stages());
  const auto alone = run({.strategy = "autoregressive"}, requests_of(1, 20));
  make(four_stages());
  const auto results = run({.strategy = "autoregressive"}, requests_of(4, 20), 4);
  EXPECT_EQ(results[0].tokens, alone[0].tokens);
  for (const OfflineResult& request : results) {
    EXPECT_GT(request.tokens_per_s(), 0.9 * alone[0].tokens_per_s());
  }
}

TEST_F(SimulatedStagesPlay, PipelinedHasTheSameTokensSooner) {
  make(four_stages());
  const auto plain = run({.strategy = "autoregressive"}, requests_of(1, 60));
  for (const char* shape : {"levels", "best", "adaptive"}) {
    SCOPED_TRACE(shape);
    SpeculationOptions options{.strategy = "pipelined", .shape = shape};
    if (shape != std::string("adaptive")) options.verify_tokens = 16;
    SimulatedExecutor& executor = make(four_stages());
    const auto results = run(options, requests_of(1, 60));
    EXPECT_EQ(results[0].tokens, plain[0].tokens);
    EXPECT_GT(results[0].tokens_per_s(), 1.5 * plain[0].tokens_per_s());
    EXPECT_FALSE(executor.next({}));  // all items have left the pipeline
    EXPECT_EQ(executor.kv_usage(Role::kTarget).used_blocks, 0);
    EXPECT_EQ(executor.kv_usage(Role::kDraft).used_blocks, 0);
  }
}

}  // namespace
}  // namespace forerun
