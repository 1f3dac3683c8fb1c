#include "exec/emulated/step_emulator.h"

#include <gtest/gtest.h>

#include <thread>

#include "exec/exec_rig.h"

namespace forerun {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A clock that advances by sleeping, and by `arithmetic` at every reading.
class HandClock : public SleepClock {
 public:
  time_point now() override {
    const time_point before = now_;
    now_ += arithmetic;
    return before;
  }
  void sleep_until(time_point when) override {
    slept.push_back(when - now_);
    now_ = when;
  }
  std::chrono::nanoseconds arithmetic{0};
  std::vector<std::chrono::nanoseconds> slept;

 private:
  time_point now_{std::chrono::hours(1)};
};

StepProfile profile_of(double target_ms, double draft_ms) {
  StepProfile profile;
  profile.costs.add(Role::kTarget, {8, 0}, 1e-3 * target_ms);
  profile.costs.add(Role::kTarget, {16, 0}, 2e-3 * target_ms);
  profile.costs.add(Role::kDraft, {8, 0}, 1e-3 * draft_ms);
  return profile;
}

// A wrapped runner of a fake model, without an executor.
struct Wrapped {
  explicit Wrapped(StepEmulator& emulator, Role role)
      : decoder(kVocab, 8, 1), device(CpuDeviceGroup::create_unpinned({1}).value()) {
    runner =
        emulator.wrap(role, std::make_unique<DecoderStepRunner>(&decoder, device.get(), kVocab));
  }
  Status run(int32_t rows) const {
    const int32_t block = 0;
    Step step;
    step.sequences.push_back({&block});
    for (int32_t position = 0; position < rows; ++position) {
      StepRow row;
      row.position = position;
      row.slot = position;
      row.visible = row.boundary = position + 1;
      step.rows.push_back(row);
    }
    return runner->run(step, {}, {}, {});
  }
  FakeDecoder decoder;
  std::unique_ptr<CpuDeviceGroup> device;
  std::unique_ptr<StepRunner> runner;
};

TEST(StepEmulator, SleepsWhatTheArithmeticLeavesOfTheProfilesTime) {
  HandClock clock;
  clock.arithmetic = milliseconds(1);
  StepEmulator emulator(profile_of(10, 3), true, &clock);
  Wrapped target(emulator, Role::kTarget);
  Wrapped draft(emulator, Role::kDraft);
  ASSERT_TRUE(target.run(8).ok());
  ASSERT_TRUE(target.run(12).ok());
  ASSERT_TRUE(draft.run(1).ok());
  ASSERT_EQ(clock.slept.size(), 3u);
  // The runner reads the clock once before the arithmetic and once after it.
  EXPECT_NEAR(static_cast<double>(clock.slept[0].count()), 8e6, 2.0);
  EXPECT_NEAR(static_cast<double>(clock.slept[1].count()), 13e6, 2.0);
  EXPECT_NEAR(static_cast<double>(clock.slept[2].count()), 1e6, 2.0);
  EXPECT_EQ(emulator.stats().steps, 3);
  EXPECT_EQ(emulator.stats().late_steps, 0);
}

TEST(StepEmulator, ALateStepIsCounted) {
  HandClock clock;
  clock.arithmetic = milliseconds(5);
  StepEmulator emulator(profile_of(10, 3), false, &clock);
  Wrapped target(emulator, Role::kTarget);
  Wrapped draft(emulator, Role::kDraft);
  ASSERT_TRUE(draft.run(8).ok());
  ASSERT_TRUE(target.run(8).ok());
  const EmulationStats stats = emulator.stats();
  EXPECT_EQ(stats.steps, 2);
  EXPECT_EQ(stats.late_steps, 1);
  EXPECT_NEAR(stats.late_seconds, 2e-3, 1e-8);
  EXPECT_EQ(clock.slept.size(), 1u);
}

TEST(StepEmulator, AFailedStepReturnsAtOnce) {
  HandClock clock;
  StepEmulator emulator(profile_of(10, 3), true, &clock);
  Wrapped target(emulator, Role::kTarget);
  target.decoder.fail = true;
  EXPECT_FALSE(target.run(8).ok());
  EXPECT_TRUE(clock.slept.empty());
  EXPECT_EQ(emulator.stats().steps, 0);
}

// Behind an executor, results must equal those of the bare runner, and Steps of threaded roles must
// overlap.
TEST(StepEmulator, ResultsAreTheRealOnesAndRolesSleepConcurrently) {
  Rig bare(Rig::Options{});
  FakeDecoder target(kVocab + 4, 64, 1);
  FakeDecoder draft(kVocab, 64, 2);
  auto device = CpuDeviceGroup::create_unpinned({1}).value();
  StepEmulator emulator(profile_of(60, 60), true);
  std::vector<StepRecord> records;
  std::mutex mutex;
  RealExecutorOptions options;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    FakeDecoder* decoder = role == Role::kTarget ? &target : &draft;
    options.runners[static_cast<size_t>(role)] = emulator.wrap(
        role, std::make_unique<DecoderStepRunner>(
                  decoder, device.get(), common_live_vocab(target.config(), &draft.config())));
  }
  options.threaded = {true, true};
  options.trace = true;
  options.on_step = [&](const StepRecord& record) {
    const std::lock_guard lock(mutex);
    records.push_back(record);
    ASSERT_EQ(record.items.size(), 1u);
    EXPECT_EQ(record.items[0].request, 5u);
    EXPECT_EQ(record.items[0].rows, record.rows);
    EXPECT_LE(record.items[0].submit_ns, record.start_ns);
    EXPECT_GE(record.host_cpu_ns, 0);
  };
  RealExecutor executor(std::move(options));
  for (Executor* each :
       {static_cast<Executor*>(&executor), static_cast<Executor*>(bare.executor.get())}) {
    ASSERT_TRUE(each->open(5, plain_spec()).ok());
    each->submit(prefix_item(5, Role::kTarget, {1, 2, 3}));
    each->submit(prefix_item(5, Role::kDraft, {1, 2, 3}));
  }
  std::array<TokenId, kNumRoles> tokens{-1, -1};
  for (int count = 0; count < kNumRoles; ++count) {
    const auto emulated = executor.next(kTimeout);
    ASSERT_TRUE(emulated && emulated->status.ok());
    tokens[static_cast<size_t>(emulated->role)] = emulated->rows.at(0).token;
  }
  for (int count = 0; count < kNumRoles; ++count) {
    const auto plain = bare.next();
    ASSERT_TRUE(plain && plain->status.ok());
    EXPECT_EQ(plain->rows.at(0).token, tokens[static_cast<size_t>(plain->role)]);
  }
  EXPECT_EQ(emulator.stats().steps, 2);
  const std::lock_guard lock(mutex);
  ASSERT_EQ(records.size(), 2u);
  for (const StepRecord& record : records) EXPECT_GE(record.seconds, 0.060);
  // Each slept 60 ms; in sequence the second would have started after the first one's end.
  EXPECT_LT(std::max(records[0].start_ns, records[1].start_ns),
            std::min(records[0].end_ns, records[1].end_ns));
}

}  // namespace
}  // namespace forerun
