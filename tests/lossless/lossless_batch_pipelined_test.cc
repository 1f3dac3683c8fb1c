// The promise where several requests fill one pipeline: `pipelined` on stages, 1, 4 and 16 requests
// at once, whose nodes share the stages' Steps, at every width and by every source and shape. Each
// gives the tokens that plain decoding gives it alone on the whole model, whoever is admitted or
// ends meanwhile, and no KV block is left.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lossless/lossless_cases.h"
#include "strategies/every_policy.h"

namespace forerun::testing {
namespace {

constexpr int32_t kBatchLayers = 8;
constexpr uint64_t kBatchSeeds = 12;

Precision of_eight_layers() {
  Precision precision = precisions().front();
  precision.spec.num_layers = kBatchLayers;
  return precision;
}

class LosslessBatchPipelined : public ::testing::TestWithParam<int32_t> {
 protected:
  static void SetUpTestSuite() {
    if (on_gpu()) return;
    pair_ = std::make_unique<ToyPair>(of_eight_layers().spec, 0.15f);
    const auto whole = make_engine(pair_->target(), pair_->draft(), of_eight_layers());
    ASSERT_NE(whole, nullptr);
    for (uint64_t seed = 0; seed < kBatchSeeds; ++seed) {
      Request request = plain_request(seed);
      request.speculation = SpeculationOptions{.strategy = "autoregressive"};
      plain_[seed] = complete(*whole, request);
      ASSERT_TRUE(plain_[seed].error.ok()) << plain_[seed].error.message();
    }
  }
  static void TearDownTestSuite() {
    plain_.clear();
    pair_.reset();
  }
  // Lengths differ by seed, so that some requests end and others are admitted while the rest runs.
  static Request plain_request(uint64_t seed) {
    Request request = request_of(seed, seed % 3 > 0);
    set_length(request, 16 + static_cast<int32_t>(seed * 5 % 24));
    return request;
  }

  static std::unique_ptr<ToyPair> pair_;
  static std::map<uint64_t, Output> plain_;
};

std::unique_ptr<ToyPair> LosslessBatchPipelined::pair_;
std::map<uint64_t, Output> LosslessBatchPipelined::plain_;

TEST_P(LosslessBatchPipelined, EveryRequestGivesItsOwnPlainTokens) {
  if (on_gpu()) GTEST_SKIP() << "stages on processors";
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  const uint64_t seeds_each = test_part() == 1 ? 3 : 1;
  int64_t accepted = 0;
  uint64_t seed = 0;
  for (const int32_t at_once : {1, 4, 16}) {
    EngineOptions options;
    options.stages = GetParam();
    options.max_active_requests = at_once;
    const auto engine = make_engine(pair_->target(), pair_->draft(), of_eight_layers(),
                                    processors.front(), processors.back(), options);
    ASSERT_NE(engine, nullptr);
    for (const int32_t width : {1, 4, 16, 64}) {
      std::vector<Request> requests;
      for (const SpeculationOptions& policy : policies_of(
               "pipelined", every_policy({}, {.verify_tokens = width, .draft_width = width}))) {
        for (uint64_t turn = 0; turn < seeds_each; ++turn) {
          requests.push_back(plain_request(seed++ % kBatchSeeds));
          requests.back().speculation = policy;
        }
      }
      const std::vector<Output> outputs = complete_together(*engine, requests);
      ASSERT_EQ(outputs.size(), requests.size());
      for (size_t idx = 0; idx < outputs.size(); ++idx) {
        expect_same(plain_.at(*requests[idx].sampling.seed), outputs[idx],
                    std::to_string(GetParam()) + " stages, width " + std::to_string(width) + ", " +
                        std::to_string(at_once) + " at once: " + describe(requests[idx]));
        accepted += outputs[idx].stats.accepted_tokens;
      }
    }
    EXPECT_TRUE(releases_its_kv(*engine));
  }
  EXPECT_GT(accepted, in_part(500));
}

INSTANTIATE_TEST_SUITE_P(Stages, LosslessBatchPipelined, ::testing::Values(2, 3, 4, 8));

}  // namespace
}  // namespace forerun::testing
