// Tests a device of a tensor-parallel group that fails or comes late: its request must get an
// error, the next request the right tokens, and no thread may wait for ever.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/testing.h"
#include "exec/exec_rig.h"
#include "model/cpu_decoder.h"

namespace forerun {
namespace {

constexpr int32_t kDegree = 3;

// A target on three devices; tests arm their faults.
class GroupFaults : public ::testing::TestWithParam<bool> {
 protected:
  GroupFaults() {
    EXPECT_TRUE(write_toy_checkpoint(dir_.path(), {}).ok());
    checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open(dir_.path()).value());
    CpuGroupOptions group;
    group.devices.resize(kDegree, {{}, 1});
    group.timeout = std::chrono::milliseconds(400);
    group.before_collective = [this](int32_t rank) {
      ++arrivals_[static_cast<size_t>(rank)];
      if (rank != culprit_ || --countdown_ != 0) return Status();
      if (!late_) return Status(StatusCode::kInternal, "fell off the bus");
      // Delays the fault until the other devices have arrived, which starts their timeout however
      // busy the machine is.
      const int32_t here = arrivals_[static_cast<size_t>(rank)];
      for (const std::atomic<int32_t>& other : arrivals_) {
        while (other < here) std::this_thread::yield();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      return Status();
    };
    group_ = CpuDeviceGroup::create(group).value();
    CpuDecoderOptions options;
    options.kv_blocks = 16;
    decoder_ = CpuDecoder::load(*checkpoint_, group_.get(), options).value();
    RealExecutorOptions setup;
    setup.runners[0] = std::make_unique<DecoderStepRunner>(decoder_.get(), group_.get(), 256);
    setup.threaded = {GetParam(), GetParam()};
    executor_ = std::make_unique<RealExecutor>(std::move(setup));
  }

  WorkResult complete(SequenceId sequence) {
    SequenceSpec spec = plain_spec();
    spec.sampling.temperature = 0.9f;
    EXPECT_TRUE(executor_->open(sequence, spec).ok());
    executor_->submit(prefix_item(sequence, Role::kTarget, {5, 7, 11, 200}));
    std::optional<WorkResult> result = executor_->next(kTimeout);
    executor_->close(sequence);
    EXPECT_TRUE(result.has_value());
    return result ? std::move(*result) : WorkResult();
  }

  const TempDir dir_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::array<std::atomic<int32_t>, kDegree> arrivals_ = {};  // of each device at collectives
  std::atomic<int> countdown_{0};
  std::atomic<int32_t> culprit_{-1};
  std::atomic<bool> late_{false};
  std::unique_ptr<CpuDeviceGroup> group_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<RealExecutor> executor_;
};

TEST_P(GroupFaults, FailTheRequestInTheForwardAndInTheSampler) {
  SequenceId next_sequence = 1;
  const TokenId expected = complete(next_sequence++).rows.at(0).token;
  ASSERT_GE(expected, 0);
  // Two layers use four collectives, and the sampler uses two per row.
  for (const int collective : {1, 3, 4, 5, 6}) {
    for (int32_t culprit = 0; culprit < kDegree; ++culprit) {
      late_ = collective % 3 == 0 && culprit == 1;
      for (std::atomic<int32_t>& arrivals : arrivals_) arrivals = 0;
      countdown_ = collective;
      culprit_ = culprit;
      const WorkResult failed = complete(next_sequence++);
      culprit_ = -1;
      EXPECT_EQ(failed.status.code(), late_ ? StatusCode::kDeadlineExceeded : StatusCode::kInternal)
          << collective << " " << failed.status.message();
      EXPECT_NE(failed.status.message().find("device " + std::to_string(culprit)),
                std::string::npos)
          << failed.status.message();
      const WorkResult next = complete(next_sequence++);
      ASSERT_TRUE(next.status.ok()) << next.status.message();
      EXPECT_EQ(next.rows.at(0).token, expected);
    }
  }
  for (int tries = 0; executor_->kv_usage(Role::kTarget).used_blocks > 0 && tries < 5000; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(executor_->kv_usage(Role::kTarget).used_blocks, 0);
}

INSTANTIATE_TEST_SUITE_P(InlineAndThreaded, GroupFaults, ::testing::Bool());

}  // namespace
}  // namespace forerun
