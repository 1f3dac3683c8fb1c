// `auto` on a machine whose Steps are bound by reading the KV cache: while a batch of long contexts
// decodes, the target drafts for itself through a view, and the tokens do not change.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/testing.h"
#include "forerun/engine.h"
#include "support/create_engine_rig.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

constexpr int32_t kViewedRequests = 8;
constexpr int32_t kPromptTokens = 1200;

// Rows cost next to nothing: the cache is what takes time, or, in the other, hardly any.
constexpr const char* kViewProfiles = R"({
  "forerun_profiles": 1, "source": "a test", "machine": "no machine",
  "models": {
    "reads": {"model": "T", "devices": 1, "steps": [
      {"rows": 8, "sequences": 8, "context": 16, "ms": 1.4, "source": "-"},
      {"rows": 512, "sequences": 8, "context": 16, "ms": 1.7, "source": "-"},
      {"rows": 8, "sequences": 8, "context": 1200, "ms": 20, "source": "-"},
      {"rows": 512, "sequences": 8, "context": 1200, "ms": 20.3, "source": "-"}]},
    "computes": {"model": "T", "devices": 1, "steps": [
      {"rows": 1, "ms": 2, "source": "-"}, {"rows": 64, "ms": 128, "source": "-"}]}},
  "profiles": {
    "reads": {"devices": "shared", "target": "reads"},
    "computes": {"devices": "shared", "target": "computes"}}})";

class AutoViewsTest : public ::testing::Test {
 protected:
  AutoViewsTest() {
    ToySpec spec;
    spec.dtype = DType::kBf16;
    spec.max_position = 2048;
    EXPECT_TRUE(write_toy_model(dir_.path() / "target", spec).ok());
    EXPECT_TRUE(write_text(dir_.path() / "profiles.json", kViewProfiles).ok());
  }
  std::unique_ptr<Engine> engine(const std::string& profile) const {
    EngineOptions options;
    options.model = (dir_.path() / "target").string();
    options.devices = one_processor();
    options.emulate = (dir_.path() / "profiles.json").string() + "#" + profile;
    return create_engine(options);
  }
  // The outputs of kViewedRequests requests of different lengths that run at the same time, the
  // first `plain` of which decode plainly.
  static std::vector<Output> run(Engine& engine, const SpeculationOptions& speculation,
                                 int32_t prompt_tokens, int32_t plain = 0) {
    std::vector<std::shared_ptr<RequestStream>> running;
    for (int32_t idx = 0; idx < kViewedRequests; ++idx) {
      Request request;
      for (int32_t token = 0; token < prompt_tokens + 7 * idx; ++token) {
        request.prompt_tokens.push_back(1 + (token * (idx + 3) + token * token) % 255);
      }
      request.max_new_tokens = 90 + idx;
      request.ignore_eos = true;
      request.share_prefix = false;
      request.sampling.temperature = idx % 2 == 0 ? 0.0f : 0.8f;
      request.sampling.seed = static_cast<uint64_t>(idx);
      request.speculation =
          idx < plain ? SpeculationOptions{.strategy = "autoregressive"} : speculation;
      auto stream = engine.submit(std::move(request));
      EXPECT_TRUE(stream.ok()) << stream.status().message();
      if (stream.ok()) running.push_back(*stream);
    }
    std::vector<Output> outputs;
    for (const auto& stream : running) outputs.push_back(drain(*stream));
    return outputs;
  }
  static int64_t drafts(const std::vector<Output>& outputs) {
    int64_t steps = 0;
    for (const Output& output : outputs) steps += output.stats.draft_steps;
    return steps;
  }

  TempDir dir_;
};

// There is no draft model: draft Steps are the target's own.
TEST_F(AutoViewsTest, ALargeBatchOfLongContextsDraftsForItself) {
  const auto made = engine("reads");
  ASSERT_NE(made, nullptr);
  const auto plain = run(*made, {.strategy = "autoregressive"}, kPromptTokens);
  const auto automatic = run(*made, {.strategy = "auto"}, kPromptTokens);
  ASSERT_EQ(automatic.size(), plain.size());
  for (size_t idx = 0; idx < plain.size(); ++idx) {
    EXPECT_EQ(automatic[idx].reason, FinishReason::kLength) << automatic[idx].error.message();
    EXPECT_EQ(automatic[idx].tokens, plain[idx].tokens);
  }
  EXPECT_GT(drafts(automatic), kViewedRequests);
}

TEST_F(AutoViewsTest, ARequestByAPlanOfItsOwnDoesNotKeepOthersFromIt) {
  const auto made = engine("reads");
  ASSERT_NE(made, nullptr);
  const auto plain = run(*made, {.strategy = "autoregressive"}, kPromptTokens);
  const auto mixed = run(*made, {.strategy = "auto"}, kPromptTokens, 2);
  ASSERT_EQ(mixed.size(), plain.size());
  for (size_t idx = 0; idx < plain.size(); ++idx) {
    EXPECT_EQ(mixed[idx].tokens, plain[idx].tokens);
    EXPECT_TRUE(idx >= 2 || mixed[idx].stats.draft_steps == 0) << idx;
  }
  EXPECT_GT(drafts(mixed), kViewedRequests);
}

TEST_F(AutoViewsTest, NobodyElseDoes) {
  const auto reads = engine("reads");
  const auto computes = engine("computes");
  ASSERT_TRUE(reads && computes);
  // The smallest view would cover most of these contexts.
  EXPECT_EQ(drafts(run(*reads, {.strategy = "auto"}, 300)), 0);
  // Rows that cost as much as the cache.
  EXPECT_EQ(drafts(run(*computes, {.strategy = "auto"}, 600)), 0);
  // A request that names its own options keeps them.
  EXPECT_EQ(drafts(run(*reads, {.strategy = "auto", .source = "ngram"}, kPromptTokens)), 0);
}

}  // namespace
}  // namespace forerun::testing
