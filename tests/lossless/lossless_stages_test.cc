// The promise on pipelines: a target that is cut into stages gives, by every strategy, what the
// whole one gives by plain decoding, at any number of stages, of equal and of unequal sizes, with
// tensor-parallel stages and with the draft sequential or concurrent.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lossless/lossless_cases.h"

namespace forerun::testing {
namespace {

constexpr int32_t kLayers = 8;

Precision of_eight_layers(size_t idx) {
  Precision precision = precisions()[idx];
  precision.spec.num_layers = kLayers;
  return precision;
}

struct Cut {
  std::string devices;
  int32_t stages = 0;
  std::vector<int32_t> layers = {};
};

// Alone at degree 1, so that the whole model on cpu:0 has the same bits.
std::vector<Cut> cuts() {
  return {{"cpu:0/cpu:0", 0}, {"cpu:0", 3, {1, 5, 2}}, {"cpu:0", 4}, {"cpu:0", 8}};
}

class LosslessStages : public ::testing::TestWithParam<size_t> {};

TEST_P(LosslessStages, EqualTheWholeModel) {
  if (on_gpu()) GTEST_SKIP() << "stages on processors";
  const Precision precision = of_eight_layers(GetParam());
  const bool is_int4 = precision.spec.quantization == ToySpec::Quantization::kAwq;
  const ToyPair pair(precision.spec, is_int4 ? 0.04f : 0.15f);
  const auto whole = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(whole, nullptr);
  const std::vector<std::string> processors = two_processors();
  int64_t accepted = 0;
  size_t combination = GetParam();
  for (const Cut& cut : cuts()) {
    for (const bool beside : {false, true}) {
      if (!runs(combination++)) continue;
      if (beside && processors.empty()) continue;
      EngineOptions options;
      options.stages = cut.stages;
      options.stage_layers = cut.layers;
      const auto engine = make_engine(pair.target(), pair.draft(), precision, cut.devices,
                                      beside ? processors.back() : "", options);
      ASSERT_NE(engine, nullptr);
      EXPECT_EQ(engine->info().numeric_fingerprint, whole->info().numeric_fingerprint);
      EXPECT_NE(engine->info().planner_report.find("stage 2: layers"), std::string::npos);
      for (uint64_t seed = 0; seed <= 2; ++seed) {
        Request request = request_of(seed, seed > 0);
        request.speculation = SpeculationOptions{.strategy = "autoregressive"};
        const Output plain = complete(*whole, request);
        ASSERT_TRUE(plain.error.ok()) << plain.error.message();
        std::vector<Request> requests =
            slice(by_every_policy(request, precision), 6, seed + GetParam() + (beside ? 3 : 0));
        for (Request& filling :
             slice(by_every_policy(request, precision, "pipelined"), 4, seed + (beside ? 2 : 0))) {
          requests.push_back(std::move(filling));
        }
        requests.push_back(request);
        const std::vector<Output> outputs = complete_together(*engine, requests);
        for (size_t idx = 0; idx < outputs.size(); ++idx) {
          expect_same(plain, outputs[idx],
                      precision.name + " on " + cut.devices + " in " + std::to_string(cut.stages) +
                          (beside ? " beside a draft " : " ") + describe(requests[idx]));
          accepted += outputs[idx].stats.accepted_tokens;
        }
      }
      EXPECT_TRUE(releases_its_kv(*engine));
    }
  }
  EXPECT_GT(accepted, in_part(500));
}

// Without a draft model the stages work on several Steps at once: plain decoding, and guesses from
// the text, of 1, 4 and 16 requests.
TEST_P(LosslessStages, AtWorkAtOnceEqualTheWholeModel) {
  if (on_gpu()) GTEST_SKIP() << "stages on processors";
  const Precision precision = of_eight_layers(GetParam());
  const ToyPair pair(precision.spec);
  const auto whole = make_engine(pair.target(), "", precision);
  ASSERT_NE(whole, nullptr);
  int64_t accepted = 0;
  size_t combination = GetParam();
  for (const int32_t stages : {2, 3, 4, 8}) {
    if (!runs(combination++)) continue;
    EngineOptions options;
    options.stages = stages;
    const auto engine = make_engine(pair.target(), "", precision, one_processor(), "", options);
    ASSERT_NE(engine, nullptr);
    for (const size_t count : {1, 4, 16}) {
      std::vector<Request> requests;
      for (size_t idx = 0; idx < count; ++idx) {
        Request request = request_of(idx + count, idx % 2 == 1);
        request.max_new_tokens = 20 + static_cast<int32_t>(idx);
        request.speculation = SpeculationOptions{.strategy = "autoregressive"};
        if (idx % 3 != 0) {
          request.speculation->strategy = "serial_tree";
          request.speculation->source = idx % 3 == 1 ? "ngram" : "suffix";
          request.speculation->shape = "best";  // guesses whatever Steps cost at the moment
        }
        requests.push_back(std::move(request));
      }
      const std::vector<Output> outputs = complete_together(*engine, requests);
      for (size_t idx = 0; idx < count; ++idx) {
        Request request = requests[idx];
        request.speculation = SpeculationOptions{.strategy = "autoregressive"};
        expect_same(complete(*whole, request), outputs[idx],
                    precision.name + " in " + std::to_string(stages) + " stages, " +
                        std::to_string(count) + " requests, " + describe(requests[idx]));
        accepted += outputs[idx].stats.accepted_tokens;
      }
    }
    EXPECT_TRUE(releases_its_kv(*engine));
  }
  // The texts of random blocks hardly repeat anything that could be guessed.
  const int64_t expected = precision.spec.gguf_formats.empty() ? in_part(5) : -1;
  EXPECT_GT(accepted, expected);
}

// Stages of degree 2: the bits of the whole model at degree 2.
TEST_P(LosslessStages, OfGroupsEqualTheWholeModelOnAGroup) {
  if (on_gpu()) GTEST_SKIP() << "stages on processors";
  const Precision precision = of_eight_layers(GetParam());
  const bool is_int4 = precision.spec.quantization == ToySpec::Quantization::kAwq;
  const ToyPair pair(precision.spec, is_int4 ? 0.04f : 0.15f);
  const auto whole = make_engine(pair.target(), pair.draft(), precision, "cpu:0,cpu:0");
  ASSERT_NE(whole, nullptr);
  const auto engine =
      make_engine(pair.target(), pair.draft(), precision, "cpu:0,cpu:0/cpu:0,cpu:0/cpu:0,cpu:0");
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->info().numeric_fingerprint, whole->info().numeric_fingerprint);
  for (uint64_t seed = 0; seed <= 2; ++seed) {
    Request request = request_of(seed, seed > 0);
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output plain = complete(*whole, request);
    const std::vector<Request> requests =
        part_of(slice(by_every_policy(request, precision), 8, seed), GetParam() + seed);
    const std::vector<Output> outputs = complete_together(*engine, requests);
    for (size_t idx = 0; idx < outputs.size(); ++idx) {
      expect_same(plain, outputs[idx], precision.name + " in groups " + describe(requests[idx]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, LosslessStages,
                         ::testing::Range(size_t{0}, precisions().size()),
                         [](const auto& tested) { return precisions()[tested.param].name; });

// Contexts longer than the budget of the target's own view, drafted through it stage by stage.
TEST(LosslessStagesViews, EqualTheWholeModel) {
  if (on_gpu()) GTEST_SKIP() << "stages on processors";
  Precision precision = of_eight_layers(0);
  precision.spec.max_position = 1024;
  const ToyPair pair(precision.spec);
  const auto whole = make_engine(pair.target(), pair.draft(), precision);
  EngineOptions options;
  options.stages = 3;
  const auto engine =
      make_engine(pair.target(), pair.draft(), precision, one_processor(), "", options);
  ASSERT_TRUE(whole != nullptr && engine != nullptr);
  std::vector<Request> requests;
  std::vector<Output> plain;
  for (const int32_t length : {150, 449, 303, 640}) {
    Request request = request_of(static_cast<uint64_t>(length), length % 2 == 0);
    request.prompt.clear();
    for (int32_t i = 0; i < length; ++i) {
      request.prompt_tokens.push_back(97 +
                                      (i < 8 ? (length + i * i) % 20 : (i % 13 + i / 100) % 20));
    }
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output output = complete(*whole, request);
    ASSERT_TRUE(output.error.ok()) << output.error.message();
    for (const Request& drafted : by_every_policy(request, precision, "sparse_self")) {
      requests.push_back(drafted);
      plain.push_back(output);
    }
  }
  ASSERT_GE(requests.size(), 8u);
  const std::vector<Output> outputs = complete_together(*engine, requests);
  for (size_t idx = 0; idx < outputs.size(); ++idx) {
    expect_same(plain[idx], outputs[idx], describe(requests[idx]));
  }
}

TEST(LosslessStagesOptions, SayWhatTheyRefuse) {
  if (on_gpu()) GTEST_SKIP() << "stages on processors";
  const Precision precision = of_eight_layers(0);
  const ToyPair pair(precision.spec);
  struct Refused {
    std::string devices, draft_devices;
    int32_t stages;
    std::vector<int32_t> layers;
    std::string message;
    bool try_splits = false;
  };
  const std::vector<Refused> all = {
      {"cpu:0", "", 9, {}, "found 9; accepted: 1 to 8, one for each layer"},
      {"cpu:0", "", -1, {}, "stages: found -1; accepted: 1 to 64"},
      {"cpu:0/cpu:0", "", 3, {}, "found 2 groups in 'cpu:0/cpu:0' for 3 stages"},
      {"cpu:0//cpu:0", "", 0, {}, "found an empty group"},
      {"cpu:0/cuda:0", "", 0, {}, "accepted: processors for all stages, or GPUs for all"},
      {"cpu:0", "", 0, {4, 5}, "found 4, 5 layers"},
      {"cpu:0", "", 3, {4, 4}, "found 2 numbers; accepted: one for each of 3 stages"},
      {"cpu:0", "cpu:0/cpu:0", 0, {}, "a draft is not cut into stages"},
      {"cuda:0", "", 2, {}, "cuda:0/cuda:1"},
      {"cpu:0", "", 2, {}, "accepted with --auto: a target that is not cut", true}};
  for (const Refused& refused : all) {
    EngineOptions options;
    options.model = pair.target();
    options.draft = pair.draft();
    options.devices = refused.devices;
    options.draft_devices = refused.draft_devices;
    options.stages = refused.stages;
    options.stage_layers = refused.layers;
    options.try_splits = refused.try_splits;
    const auto engine = Engine::create(options);
    ASSERT_FALSE(engine.ok()) << refused.message;
    EXPECT_NE(engine.status().message().find(refused.message), std::string::npos)
        << engine.status().message();
  }
}

}  // namespace
}  // namespace forerun::testing
