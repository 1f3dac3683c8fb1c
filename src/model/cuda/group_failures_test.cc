// Tests the failure of one GPU of a group: the Step fails with that GPU's error, the others stop
// waiting, and the next Step has the usual bits.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "checkpoint/testing.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cuda_testing.h"
#include "model/cuda/decoder.h"
#include "model/decoder_checks_rig.h"

namespace forerun::cuda {
namespace {

constexpr int32_t kTokens = 40;

class GroupFailures : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    // Each GPU has two parts if there are too few GPUs.
    SKIP_WITHOUT_GPUS((GetParam() + 1) / 2);
    ToySpec spec;
    spec.hidden_size = 256;
    spec.intermediate_size = 512;
    spec.num_heads = 8;
    spec.num_kv_heads = 4;
    spec.vocab_size = 96;
    spec.dtype = DType::kBf16;
    ASSERT_OK(write_toy_checkpoint(dir_.path(), spec));
    const auto checkpoint = Checkpoint::open(dir_.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    DecoderCudaOptions options;
    options.kv_blocks = 8;
    options.devices.clear();
    for (int32_t rank = 0; rank < GetParam(); ++rank) {
      options.devices.push_back(rank % gpus_of_sm90());
    }
    shares_gpus_ = std::set<int32_t>(options.devices.begin(), options.devices.end()).size() <
                   options.devices.size();
    auto decoder = DecoderCuda::load(*checkpoint, options);
    ASSERT_TRUE(decoder.ok()) << decoder.status().message();
    decoder_ = std::move(*decoder);
    for (int32_t index = 0; index < kTokens; ++index) tokens_.push_back(index * 7 % 96);
  }
  // Captures the rank's graphs anew, changed by `edit`.
  void remake_graphs(int32_t rank, const std::function<Status(cudaGraph_t)>& edit) {
    ASSERT_OK(decoder_->shard(rank).use());
    decoder_->shard(rank).edit_graphs([edit, shares = shares_gpus_](cudaGraph_t graph) -> Status {
      if (edit) FORERUN_RETURN_IF_ERROR(edit(graph));
      return shares ? one_kernel_at_a_time(graph) : Status();
    });
  }
  std::vector<float> logits() {
    return run_tokens(*decoder_, tokens_, 0, 8, SequenceDriver::blocks_for(kTokens));
  }
  Status one_step() {
    const std::vector<int32_t> table = SequenceDriver::blocks_for(kTokens);
    Step step;
    step.sequences.push_back({table.data()});
    SequenceDriver::add_prefix_rows(step, 0, std::span(tokens_).first(8), 0, true);
    return decoder_->forward(step);
  }

  TempDir dir_;
  bool shares_gpus_ = false;
  std::unique_ptr<DecoderCuda> decoder_;
  std::vector<int32_t> tokens_;
};

// One rank has dropped the pass that the others replay.
TEST_P(GroupFailures, ARankThatDoesNotComeEndsTheOthersWaiting) {
  const std::vector<float> expected = logits();
  for (const int32_t rank : {0, GetParam() - 1}) {
    remake_graphs(rank, nullptr);
    const auto start = std::chrono::steady_clock::now();
    const auto failed = decoder_->time_replays(2);
    // This is long before the time limit of the wait.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    ASSERT_FALSE(failed.ok()) << "rank " << rank;
    EXPECT_EQ(failed.status().code(), StatusCode::kInvalidArgument) << failed.status().message();
    EXPECT_NE(failed.status().message().find("no pass has run"), std::string::npos)
        << failed.status().message();
    EXPECT_TRUE(logits() == expected) << "after rank " << rank;
    ASSERT_OK(decoder_->time_replays(2).status());
  }
}

TEST_P(GroupFailures, AGraphThatCannotBeMadeFailsItsStepOnly) {
  const std::vector<float> expected = logits();
  const auto refuses = [](cudaGraph_t) { return Status(StatusCode::kInternal, "not this one"); };
  const auto throws = [](cudaGraph_t) -> Status { throw std::runtime_error("not this one"); };
  for (const int32_t rank : {0, GetParam() - 1}) {
    for (const std::function<Status(cudaGraph_t)>& edit :
         {std::function<Status(cudaGraph_t)>(refuses), {throws}}) {
      remake_graphs(rank, edit);
      const Status failed = one_step();
      EXPECT_EQ(failed.code(), StatusCode::kInternal);
      EXPECT_EQ(failed.message(), "not this one");
      remake_graphs(rank, nullptr);
      EXPECT_TRUE(logits() == expected) << "after rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Degrees, GroupFailures, testing::Values(1, 2, 3, 4),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace forerun::cuda
