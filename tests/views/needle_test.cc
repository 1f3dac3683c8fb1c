// Tests views on needle tasks with a model that can solve them: a passage far back is repeated, and
// each view must find the part of it that the view is made to find.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "support/induction_model.h"
#include "support/toy_model.h"
#include "views/view_table.h"

namespace forerun::testing {
namespace {

constexpr int32_t kPassage = 120;
constexpr int32_t kRepeated = 40;  // tokens of the passage that the prompt's end repeats
constexpr int32_t kContext = 3000;
constexpr int32_t kBudget = 320;  // with 512, SnapKV gathers nearly all of a passage
constexpr uint32_t kNeedles = 2;

struct Needle {
  std::vector<int32_t> prompt;
  std::vector<int32_t> expected;
};

// The passage's tokens stand nowhere else, so that what follows each is known; others of its topic
// stand in the same half of the context.
Needle make_needle(uint32_t seed) {
  std::mt19937 random(seed);
  const auto any = [&](int32_t below) { return static_cast<int32_t>(random() % below); };
  std::vector<int32_t> topic(kTopicTokens);
  std::iota(topic.begin(), topic.end(), kFillerTokens);
  std::shuffle(topic.begin(), topic.end(), random);
  const std::vector<int32_t> passage(topic.begin(), topic.begin() + kPassage);
  std::vector<int32_t> others(topic.begin() + kPassage, topic.end());
  Needle needle;
  const auto add = [&](const std::vector<int32_t>& tokens) {
    needle.prompt.insert(needle.prompt.end(), tokens.begin(), tokens.end());
  };
  const auto add_filler = [&](int32_t upto) {
    while (static_cast<int32_t>(needle.prompt.size()) < upto) {
      needle.prompt.push_back(any(kFillerTokens));
    }
  };
  const int32_t place = any(6);
  for (int32_t part = 0; part < 6; ++part) {
    add_filler(100 + part * kContext / 12);
    std::shuffle(others.begin(), others.end(), random);
    add(part == place ? passage : others);
  }
  add_filler(kContext - kRepeated);
  add({passage.begin(), passage.begin() + kRepeated});
  needle.expected.assign(passage.begin() + kRepeated, passage.end());
  return needle;
}

class NeedleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_induction_model(dir_.path()).ok());
    EngineOptions options;
    options.model = dir_.path().string();
    options.activations = "f32";
    options.kv_memory_bytes = int64_t{1} << 26;
    auto engine = Engine::create(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    engine_ = std::move(*engine);
  }
  Output continue_it(const Needle& needle, const SpeculationOptions& speculation) {
    Request request;
    request.prompt_tokens = needle.prompt;
    request.max_new_tokens = static_cast<int32_t>(needle.expected.size());
    request.ignore_eos = true;
    request.sampling.temperature = 0.0f;
    request.speculation = speculation;
    return complete(*engine_, request);
  }
  // The share of guesses through the view that are right.
  double acceptance(const std::string& view, int32_t depth) {
    RequestStats all;
    for (uint32_t seed = 1; seed <= kNeedles; ++seed) {
      const Needle needle = make_needle(seed);
      SpeculationOptions options{.strategy = "sparse_self", .draft_depth = depth, .view = view};
      options.view_budget = kBudget;
      const Output output = continue_it(needle, options);
      EXPECT_EQ(output.tokens, needle.expected) << view;
      all.drafted_tokens += output.stats.drafted_tokens;
      all.accepted_tokens += output.stats.accepted_tokens;
    }
    EXPECT_GT(all.drafted_tokens, 50) << view;
    return all.acceptance();
  }

  TempDir dir_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(NeedleTest, IsContinuedWithAllOfTheKv) {
  for (uint32_t seed = 1; seed <= kNeedles; ++seed) {
    const Needle needle = make_needle(seed);
    const Output output = continue_it(needle, {.strategy = "autoregressive"});
    ASSERT_TRUE(output.error.ok()) << output.error.message();
    EXPECT_EQ(output.tokens, needle.expected);
  }
}

// The order that the papers report, at one budget, with room between.
TEST_F(NeedleTest, ViewsThatFindMoreGuessMore) {
  for (const int32_t depth : {1, 4}) {
    SCOPED_TRACE("gamma " + std::to_string(depth));
    std::map<std::string, double> found;
    for (const KvViewEntry& view : view_table()) found[view.name] = acceptance(view.name, depth);
    // A task that sinks and a window could do would tell nothing.
    EXPECT_LE(found["streaming_llm"], 0.4);
    EXPECT_GE(found["snapkv"], found["streaming_llm"] + 0.1);
    EXPECT_GE(found["topk"], found["snapkv"] + 0.2);
    EXPECT_GE(found["topk"], 0.95);
    EXPECT_GE(found["pqcache"], 0.9);
    // The rows of a verification have come further in the passage than the prompt's last ones.
    EXPECT_GE(found["vegas"], found["snapkv"] + 0.05);
    for (const auto& [view, share] : found) {
      EXPECT_GE(share, found["streaming_llm"]) << view;
      EXPECT_LE(share, found["topk"] + 0.02) << view << ": nothing is better than the best";
    }
  }
}

}  // namespace
}  // namespace forerun::testing
