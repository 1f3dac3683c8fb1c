// The promise: under rule `match` every strategy, source, tree shape, precision and batch size
// gives, token for token, what plain decoding gives, greedy and sampled. The whole product runs on
// two-layer toys; a slice on the demo pair, and on a toy of every layout of quantized files. Groups
// of devices are in lossless_groups_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/layouts/toy_layouts.h"
#include "lossless/lossless_cases.h"
#include "strategies/every_policy.h"

namespace forerun::testing {
namespace {

// One after the other.
void expect_all_give(const Output& plain, Engine& engine, const std::vector<Request>& requests) {
  for (const Request& request : requests) {
    expect_same(plain, complete(engine, request), describe(request));
  }
}

constexpr uint64_t kSeeds = 17;

// The request once for every policy of this precision, or for every `part`-th of them, beginning
// elsewhere with each seed. Greedy seeds are too few for that: with them all policies run.
std::vector<Request> policies_to_run(const Request& request, size_t precision, uint64_t seed,
                                     size_t part = test_part()) {
  if (request.sampling.temperature == 0.0f) part = 1;
  return slice(by_every_policy(request, precisions()[precision]), part, precision + seed);
}

// The part that scripts/test asks for leaves out no pair of a policy and a precision, and none of a
// policy and a seed.
TEST(LosslessPart, EveryPolicyMeetsEveryPrecisionAndEverySeed) {
  std::set<std::string> whole;
  std::set<std::string> part;
  for (size_t precision = 0; precision < precisions().size(); ++precision) {
    const std::string with = " with " + precisions()[precision].name;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const Request request = request_of(seed, seed > 0);
      for (const size_t divisor : {1, 4}) {
        std::set<std::string>& pairs = divisor == 1 ? whole : part;
        for (const Request& each : policies_to_run(request, precision, seed, divisor)) {
          const std::string policy = policy_name(*each.speculation);
          pairs.insert(policy + with);
          pairs.insert(policy + " with seed " + std::to_string(seed));
        }
      }
    }
  }
  for (const std::string& pair : whole) EXPECT_TRUE(part.contains(pair)) << pair;
}

class Lossless : public ::testing::TestWithParam<size_t> {};

TEST_P(Lossless, EveryPolicyEqualsPlainDecoding) {
  const Precision precision = precisions()[GetParam()];
  // A redrawn nibble is a larger change than a nudged weight.
  const bool is_int4 = precision.spec.quantization == ToySpec::Quantization::kAwq;
  const ToyPair pair(precision.spec, is_int4 ? 0.04f : 0.15f);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  int64_t accepted = 0, rejected = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Request request = request_of(seed, seed > 0);
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output plain = complete(*engine, request);
    ASSERT_TRUE(plain.error.ok()) << plain.error.message();
    ASSERT_TRUE(plain.tokens.size() == 40u || !request.ignore_eos);
    const std::vector<Request> requests = policies_to_run(request, GetParam(), seed);
    const std::vector<Output> outputs = complete_together(*engine, requests);
    ASSERT_EQ(outputs.size(), requests.size());
    for (size_t idx = 0; idx < outputs.size(); ++idx) {
      expect_same(plain, outputs[idx], precision.name + " " + describe(requests[idx]));
      accepted += outputs[idx].stats.accepted_tokens;
      rejected += outputs[idx].stats.drafted_tokens - outputs[idx].stats.accepted_tokens;
    }
  }
  // The drafts must have been worth verifying, and must have been wrong often enough.
  EXPECT_GT(accepted, in_part(2000));
  EXPECT_GT(rejected, in_part(2000));
  EXPECT_EQ(engine->kv_blocks_in_use(), 0);
}

// Each model on a processor and a thread of its own, one, two and four requests at a time.
TEST_P(Lossless, ConcurrentRolesEqualPlainDecoding) {
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  const Precision precision = precisions()[GetParam()];
  const bool is_int4 = precision.spec.quantization == ToySpec::Quantization::kAwq;
  const ToyPair pair(precision.spec, is_int4 ? 0.04f : 0.15f);
  const auto plain_engine = make_engine(pair.target(), pair.draft(), precision);
  const auto engine =
      make_engine(pair.target(), pair.draft(), precision, processors.front(), processors.back());
  ASSERT_NE(plain_engine, nullptr);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->info().numeric_fingerprint, plain_engine->info().numeric_fingerprint);
  int64_t accepted = 0;
  for (uint64_t seed = 0; seed <= 15; ++seed) {
    Request request = request_of(seed, seed > 0);
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output plain = complete(*plain_engine, request);
    // The other strategies run on split devices as well, beside these: all of them in 13 turns.
    std::vector<Request> requests =
        part_of(by_every_policy(request, precision, "parallel_tree"), GetParam() + seed);
    const std::vector<Request> others =
        part_of(slice(by_every_policy(request, precision), 13, seed), GetParam());
    requests.insert(requests.end(), others.begin(), others.end());
    const size_t at_once = size_t{1} << seed % 3;
    for (size_t begin = 0; begin < requests.size(); begin += at_once) {
      const size_t end = std::min(begin + at_once, requests.size());
      const std::vector<Request> group(requests.begin() + static_cast<std::ptrdiff_t>(begin),
                                       requests.begin() + static_cast<std::ptrdiff_t>(end));
      const std::vector<Output> outputs = complete_together(*engine, group);
      ASSERT_EQ(outputs.size(), group.size());
      for (size_t idx = 0; idx < group.size(); ++idx) {
        expect_same(plain, outputs[idx], precision.name + " " + describe(group[idx]));
        accepted += outputs[idx].stats.accepted_tokens;
      }
    }
  }
  EXPECT_GT(accepted, in_part(500));
  EXPECT_TRUE(releases_its_kv(*engine));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Lossless, ::testing::Range(size_t{0}, precisions().size()),
                         [](const auto& tested) { return precisions()[tested.param].name; });

// Every layout of quantized safetensors files: greedy and sampled, on one device and on a group of
// two that divides its weights.
class LosslessLayouts : public ::testing::TestWithParam<const ToyLayout*> {};

TEST_P(LosslessLayouts, TreesEqualPlainDecoding) {
  Precision precision{.name = GetParam()->name, .spec = precisions().front().spec};
  precision.spec.hidden_size = 128;
  precision.spec.intermediate_size = 192;
  precision.spec.num_heads = 8;
  precision.spec.num_kv_heads = 4;
  precision.spec.layout = GetParam();
  const ToyPair pair(precision.spec, 0.04f);
  const std::vector<std::string> processors = two_processors();
  std::vector<std::string> placements = {one_processor()};
  if (!processors.empty() && !on_gpu()) {
    placements.push_back(processors.front() + "," + processors.back());
  }
  auto turn = static_cast<size_t>(GetParam() - toy_layouts().data()) * 5;
  int64_t accepted = 0, rejected = 0;
  for (const std::string& devices : placements) {
    const auto engine = make_engine(pair.target(), pair.draft(), precision, devices);
    ASSERT_NE(engine, nullptr);
    for (const uint64_t seed : {uint64_t{0}, uint64_t{3}}) {
      Request request = request_of(seed, seed > 0);
      set_length(request, 20);
      request.speculation = SpeculationOptions{.strategy = "autoregressive"};
      const Output plain = complete(*engine, request);
      ASSERT_TRUE(plain.error.ok()) << plain.error.message();
      std::vector<Request> requests;
      for (const char* const strategy : {"serial_tree", "parallel_tree"}) {
        std::vector<Request> policies = by_every_policy(request, precision, strategy);
        ASSERT_FALSE(policies.empty()) << strategy;
        // Two of them; the layouts together meet all.
        for (Request& each : slice(policies, std::max<size_t>(1, policies.size() / 2), turn)) {
          requests.push_back(std::move(each));
        }
      }
      ++turn;
      const std::vector<Output> outputs = complete_together(*engine, requests);
      ASSERT_EQ(outputs.size(), requests.size());
      for (size_t idx = 0; idx < outputs.size(); ++idx) {
        expect_same(plain, outputs[idx], devices + " " + describe(requests[idx]));
        accepted += outputs[idx].stats.accepted_tokens;
        rejected += outputs[idx].stats.drafted_tokens - outputs[idx].stats.accepted_tokens;
      }
    }
    EXPECT_TRUE(releases_its_kv(*engine));
  }
  EXPECT_GT(accepted, 10);
  EXPECT_GT(rejected, 10);
}

std::vector<const ToyLayout*> every_layout() {
  std::vector<const ToyLayout*> all;
  for (const ToyLayout& layout : toy_layouts()) all.push_back(&layout);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Layouts, LosslessLayouts, ::testing::ValuesIn(every_layout()),
                         [](const auto& tested) { return std::string(tested.param->name); });

TEST(LosslessEnds, StopStringsEndTokensAndLengthCutAlike) {
  const Precision precision = precisions().front();
  const ToyPair pair(precision.spec);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Request request = request_of(seed, true);
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output whole = complete(*engine, request);
    const auto end = static_cast<size_t>(seed + 5);
    if (seed % 3 == 0) {
      request.stop_tokens = {whole.tokens[end]};
    } else if (seed % 3 == 1) {
      request.max_new_tokens = static_cast<int32_t>(end);
    } else {
      request.stop = {whole.text.substr(whole.text.size() / 2, 2)};
    }
    const Output plain = complete(*engine, request);
    expect_all_give(plain, *engine, slice(by_every_policy(request, precision), 4, seed));
  }
}

// End tokens and stop strings that nearly every text has: not before min_new_tokens, and then
// alike.
TEST(LosslessEnds, NothingEndsEarly) {
  const Precision precision = precisions().front();
  const ToyPair pair(precision.spec);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  constexpr size_t kLeast = 15;
  int early = 0, by_token = 0, by_text = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Request request = request_of(seed, seed > 1);
    request.output_format = {};
    request.ignore_eos = false;
    request.stop_tokens.clear();
    if (seed % 3 == 0) {
      request.stop = {"a", "e", "i", "n", "o", "r", "s", "t", "u", "A", "E", "I", "1", "5", "#"};
    } else {
      for (int32_t token = 0; token < 256; token += 4) request.stop_tokens.push_back(token);
    }
    request.min_new_tokens = 0;
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    early += complete(*engine, request).tokens.size() <= kLeast ? 1 : 0;
    request.min_new_tokens = kLeast;
    const Output plain = complete(*engine, request);
    ASSERT_TRUE(plain.error.ok()) << plain.error.message();
    ASSERT_GT(plain.tokens.size(), kLeast);
    for (size_t place = 0; place < kLeast && seed % 3 != 0; ++place) {
      EXPECT_NE(plain.tokens[place] % 4, 0) << place;
    }
    if (plain.reason == FinishReason::kStop) (seed % 3 == 0 ? by_text : by_token) += 1;
    expect_all_give(plain, *engine, slice(by_every_policy(request, precision), 4, seed));
    request.min_new_tokens = 41;
    EXPECT_NE(complete(*engine, request).error.message().find("min_tokens: found 41"),
              std::string::npos);
  }
  EXPECT_GT(early, 3);
  EXPECT_GT(by_token, 3);
  EXPECT_GT(by_text, 0);
}

TEST(LosslessEnds, TheWholeContextCanBeFilled) {
  Precision precision = precisions().front();
  const ToyPair pair(precision.spec);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  Request request = request_of(3, true);
  request.max_new_tokens = engine->info().max_context_tokens - 32;
  request.speculation = SpeculationOptions{.strategy = "autoregressive"};
  const Output plain = complete(*engine, request);
  ASSERT_TRUE(plain.error.ok()) << plain.error.message();
  expect_all_give(plain, *engine, by_every_policy(request, precision));
}

TEST(LosslessDemoPair, ASliceOfTheProduct) {
  const std::filesystem::path models = std::filesystem::path(FORERUN_SOURCE_DIR) / "models";
  const auto engine = make_engine((models / "demo-target").string(),
                                  (models / "demo-draft").string(), Precision{}, "");
  ASSERT_NE(engine, nullptr);
  const std::vector<std::string> prompts = {
      "def merge_sorted(left, right):\n    \"\"\"Merge two sorted lists.\"\"\"\n",
      "There was a silence in the drawing-room after he had gone. "};
  size_t turn = 0;
  for (const std::string& prompt : prompts) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Request request;
      request.prompt = prompt;
      request.max_new_tokens = 64;
      request.ignore_eos = true;
      request.sampling.temperature = seed == 0 ? 0.0f : 0.8f;
      request.sampling.seed = seed;
      request.speculation = SpeculationOptions{.strategy = "autoregressive"};
      const Output plain = complete(*engine, request);
      const size_t part = test_part();
      expect_all_give(
          plain, *engine,
          slice(by_every_policy(request, Precision{}), 6 * part, turn * part + turn % part));
      ++turn;
    }
  }
}

TEST(LosslessDemoPair, Concurrent) {
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  const std::filesystem::path models = std::filesystem::path(FORERUN_SOURCE_DIR) / "models";
  const auto engine =
      make_engine((models / "demo-target").string(), (models / "demo-draft").string(), Precision{},
                  processors.front(), processors.back());
  ASSERT_NE(engine, nullptr);
  int64_t fewest_steps = std::numeric_limits<int64_t>::max();
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Request request;
    request.prompt = "def merge_sorted(left, right):\n    \"\"\"Merge two sorted lists.\"\"\"\n";
    request.max_new_tokens = 64;
    request.ignore_eos = true;
    request.sampling.temperature = seed == 0 ? 0.0f : 0.8f;
    request.sampling.seed = seed;
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output plain = complete(*engine, request);
    for (const Request& parallel :
         part_of(by_every_policy(request, Precision{}, "parallel_tree"), seed)) {
      const Output output = complete(*engine, parallel);
      expect_same(plain, output, describe(parallel));
      EXPECT_GT(output.stats.draft_steps, 0);
      fewest_steps = std::min(fewest_steps, output.stats.target_steps);
    }
  }
  // How often the draft is ahead of the target depends on other work on the machine; on a GPU it
  // may never be.
  if (!on_gpu()) {
    EXPECT_LT(fewest_steps, 60);
  }
}

}  // namespace
}  // namespace forerun::testing
