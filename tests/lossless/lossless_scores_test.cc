// Scores of prompts (SamplingParams::prompt_logprobs) are what plain decoding says of the same
// tokens, bit for bit: with every strategy, at every degree, on stages, and however Steps cut the
// prompt.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lossless/lossless_cases.h"

namespace forerun::testing {
namespace {

using Scores = std::vector<std::vector<TokenLogprob>>;

constexpr int32_t kAlternatives = 3;
constexpr size_t kAnswer = 150;  // more than two Steps score
constexpr size_t kFollows = 12;

// A text decoded plainly: the prompt of those that are scored, and what follows it.
struct Decoded {
  size_t first = 0;             // its first decoded token
  std::vector<int32_t> tokens;  // all but those that follow
  std::vector<int32_t> follows;
  Scores logprobs;  // log-probabilities of tokens from `first` on
};

Decoded decode(Engine& engine, uint64_t seed) {
  Request request;
  request.prompt_tokens = {5, static_cast<int32_t>(seed), 7, 9, 5, 7};
  request.max_new_tokens = static_cast<int32_t>(kAnswer + kFollows);
  request.ignore_eos = true;
  request.sampling.temperature = seed % 2 == 0 ? 0.0f : 0.9f;
  request.sampling.seed = seed;
  request.sampling.logprobs = kAlternatives;
  request.speculation = SpeculationOptions{.strategy = "autoregressive"};
  Output output = complete(engine, request);
  EXPECT_TRUE(output.error.ok()) << output.error.message();
  EXPECT_EQ(output.tokens.size(), kAnswer + kFollows);
  EXPECT_TRUE(output.prompt_logprobs.empty());
  output.tokens.resize(kAnswer + kFollows);
  output.logprobs.resize(kAnswer);
  Decoded decoded;
  decoded.first = request.prompt_tokens.size();
  decoded.tokens = request.prompt_tokens;
  const auto end = output.tokens.begin() + static_cast<std::ptrdiff_t>(kAnswer);
  decoded.tokens.insert(decoded.tokens.end(), output.tokens.begin(), end);
  decoded.follows.assign(end, output.tokens.end());
  decoded.logprobs = std::move(output.logprobs);
  return decoded;
}

Request scoring(const Decoded& decoded, uint64_t seed) {
  Request request;
  request.prompt_tokens = decoded.tokens;
  request.max_new_tokens = static_cast<int32_t>(kFollows);
  request.ignore_eos = true;
  request.sampling.temperature = seed % 2 == 0 ? 0.0f : 0.9f;
  request.sampling.seed = seed;
  request.sampling.prompt_logprobs = kAlternatives;
  return request;
}

void expect_equal(const std::vector<TokenLogprob>& found, const std::vector<TokenLogprob>& expected,
                  const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t rank = 0; rank < found.size(); ++rank) {
    EXPECT_EQ(found[rank].token, expected[rank].token) << what << " rank " << rank;
    EXPECT_EQ(found[rank].logprob, expected[rank].logprob) << what << " rank " << rank;
  }
}

void expect_scores(const Decoded& decoded, const Output& output, const std::string& what) {
  ASSERT_TRUE(output.error.ok()) << what << ": " << output.error.message();
  ASSERT_EQ(output.prompt_logprobs.size(), decoded.tokens.size() - 1) << what;
  EXPECT_EQ(output.stats.reused_tokens, 0) << what;
  for (size_t place = 1; place < decoded.tokens.size(); ++place) {
    const std::vector<TokenLogprob>& score = output.prompt_logprobs[place - 1];
    const std::string where = what + " token " + std::to_string(place);
    ASSERT_EQ(score.size(), size_t{kAlternatives} + 1) << where;
    EXPECT_EQ(score.front().token, decoded.tokens[place]) << where;
    if (place < decoded.first) continue;
    expect_equal(score, decoded.logprobs[place - decoded.first], where);
  }
}

// By every `step`-th policy, all at once: they share Steps.
void score_by_policies(Engine& plain, Engine& engine, const Precision& precision, size_t step,
                       const std::string& what) {
  for (uint64_t seed = 0; seed < 2; ++seed) {
    const Decoded decoded = decode(plain, seed);
    const std::vector<Request> requests =
        slice(by_every_policy(scoring(decoded, seed), precision), step, seed);
    ASSERT_FALSE(requests.empty());
    const std::vector<Output> outputs = complete_together(engine, requests);
    ASSERT_EQ(outputs.size(), requests.size());
    for (size_t idx = 0; idx < outputs.size(); ++idx) {
      const std::string name = what + " " + describe(requests[idx]);
      expect_scores(decoded, outputs[idx], name);
      EXPECT_EQ(outputs[idx].tokens, decoded.follows) << name;
    }
  }
}

class LosslessScores : public ::testing::TestWithParam<size_t> {};

TEST_P(LosslessScores, EqualPlainDecoding) {
  const Precision precision = precisions()[GetParam()];
  const ToyPair pair(precision.spec);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  score_by_policies(*engine, *engine, precision, GetParam() == 0 ? 1 : 7, precision.name);
  EXPECT_EQ(engine->kv_blocks_in_use(), 0);
}

INSTANTIATE_TEST_SUITE_P(Precisions, LosslessScores,
                         ::testing::Range(size_t{0}, precisions().size()),
                         [](const auto& tested) { return precisions()[tested.param].name; });

TEST(LosslessScoresOnDevices, EqualPlainDecoding) {
  if (on_gpu()) GTEST_SKIP() << "groups and stages of processors";
  const Precision precision = precisions().front();
  const ToyPair pair(precision.spec);
  for (const char* const devices : {"cpu:0,cpu:0", "cpu:0,cpu:0,cpu:0", "cpu:0/cpu:0"}) {
    const auto engine = make_engine(pair.target(), pair.draft(), precision, devices);
    ASSERT_NE(engine, nullptr);
    score_by_policies(*engine, *engine, precision, 11, devices);
  }
}

// Every token of a prompt is scored even if earlier requests have left the prompt's KV in the
// cache; a request that asks for scores alone generates nothing.
TEST(LosslessScoresAlone, NothingIsWrittenAndNothingReused) {
  const Precision precision = precisions().front();
  const ToyPair pair(precision.spec);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  const Decoded decoded = decode(*engine, 4);
  Request request = scoring(decoded, 4);
  request.sampling.prompt_logprobs = -1;
  EXPECT_TRUE(complete(*engine, request).prompt_logprobs.empty());
  EXPECT_GT(complete(*engine, request).stats.reused_tokens, 0);
  request.sampling.prompt_logprobs = kAlternatives;
  request.max_new_tokens = 0;
  for (const char* const strategy :
       {"autoregressive", "serial_tree", "parallel_tree", "pipelined"}) {
    request.speculation = SpeculationOptions{.strategy = strategy};
    const Output output = complete(*engine, request);
    expect_scores(decoded, output, strategy);
    EXPECT_TRUE(output.tokens.empty()) << strategy;
    EXPECT_TRUE(output.text.empty()) << strategy;
    EXPECT_EQ(output.stats.output_tokens, 0) << strategy;
    EXPECT_EQ(output.reason, FinishReason::kLength) << strategy;
  }
  request.num_samples = 2;
  EXPECT_EQ(complete(*engine, request).prompt_logprobs.size(), 2 * (decoded.tokens.size() - 1));
  request.num_samples = 1;
  request.prompt_tokens = {5};  // a first token has nothing before it
  const Output single = complete(*engine, request);
  EXPECT_TRUE(single.error.ok());
  EXPECT_TRUE(single.prompt_logprobs.empty());
  request.sampling.prompt_logprobs = 21;
  EXPECT_NE(complete(*engine, request).error.message().find("prompt_logprobs: found 21"),
            std::string::npos);
  EXPECT_EQ(engine->kv_blocks_in_use(), 0);
}

}  // namespace
}  // namespace forerun::testing
