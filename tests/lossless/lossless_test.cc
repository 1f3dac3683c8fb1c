// The promise: under rule `match` every strategy, source, tree shape, precision and number of
// companions gives, token for token, what plain decoding gives, greedy and sampled. The whole
// product runs on two-layer toys; a slice on the demo pair.
//
// Whoever adds a strategy, source, shape or precision adds it to these lists.
//
// FORERUN_TEST_DEVICES names the target's devices instead of processors (lossless_gpu_test:
// cuda:0), FORERUN_TEST_DRAFT_DEVICES those of a draft beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

const std::vector<std::string> kShapes = {"adaptive", "chain", "best", "1,1,3,1,1", "2,2"};
const std::vector<std::string> kSources = {"model", "ngram", "suffix", "model+ngram",
                                           "model+suffix"};

// What parallel_tree takes of them.
const std::vector<std::string> kParallelShapes = {"adaptive", "best"};
const std::vector<std::string> kParallelSources = {"model", "model+ngram", "model+suffix"};

struct Precision {
  std::string name;
  ToySpec spec;
  std::string weights = "as_stored";
  std::string activations = "bf16";
};

// Empty where processors are tested.
std::string test_devices(const char* variable = "FORERUN_TEST_DEVICES") {
  const char* devices = std::getenv(variable);
  return devices == nullptr ? "" : devices;
}
bool on_gpu() { return test_devices().starts_with("cuda"); }

ToySpec toy() {
  ToySpec spec;
  spec.logit_std = 3.0f;
  spec.max_position = 256;
  return spec;
}

std::vector<Precision> precisions() {
  std::vector<Precision> all;
  ToySpec bf16 = toy();
  bf16.dtype = DType::kBf16;
  all.push_back({.name = "bf16", .spec = bf16});
  ToySpec f32 = toy();
  f32.family = "qwen3";
  all.push_back({.name = "f32", .spec = f32, .activations = "f32"});
  ToySpec f16 = toy();
  f16.dtype = DType::kF16;
  f16.family = "qwen2";
  all.push_back({.name = "f16", .spec = f16});
  all.push_back({.name = "int8", .spec = toy(), .weights = "int8"});
  ToySpec int4 = bf16;
  int4.quantization = ToySpec::Quantization::kAwq;
  all.push_back({.name = "int4", .spec = int4});
  ToySpec window = int4;
  window.family = "mistral";
  window.sliding_window = 24;
  all.push_back({.name = "int4_int8_activations_window", .spec = window, .activations = "int8"});
  if (!on_gpu()) return all;
  // GPUs have bf16 activations, and kernels of their own for int4 of group 128.
  std::erase_if(all, [](const Precision& precision) {
    return precision.activations != "bf16" || precision.weights != "as_stored";
  });
  ToySpec int4_group128 = int4;
  int4_group128.hidden_size = 256;
  int4_group128.intermediate_size = 384;
  int4_group128.awq_group_size = 128;
  all.push_back({.name = "int4_group128", .spec = int4_group128});
  window.awq_group_size = 32;
  all.push_back({.name = "window", .spec = window});
  return all;
}

std::unique_ptr<Engine> make_engine(const std::string& target, const std::string& draft,
                                    const Precision& precision, int threads = 1,
                                    const std::string& draft_devices = "") {
  EngineOptions options;
  options.model = target;
  options.draft = draft;
  options.weights = precision.weights;
  options.activations = precision.activations;
  options.devices = threads == 1 ? "cpu:0" : "";
  options.draft_devices = draft_devices;
  if (!draft_devices.empty()) options.devices = two_processors().front();
  if (!test_devices().empty()) options.devices = test_devices();
  auto engine = Engine::create(options);
  if (!engine.ok()) ADD_FAILURE() << engine.status().message();
  return engine.ok() ? std::move(*engine) : nullptr;
}

Request request_of(uint64_t seed, bool sampled) {
  Request request;
  // Some repetition, so that n-grams find something.
  const std::vector<std::string> prompts = {"abcabcabcab", "to be or not to be, to be", "x",
                                            "0101100101101 0101"};
  request.prompt = prompts[seed % prompts.size()];
  request.max_new_tokens = 40;
  request.ignore_eos = true;
  request.sampling.seed = seed;
  request.sampling.temperature = sampled ? 0.8f : 0.0f;
  if (!sampled) return request;
  // Every processor takes part in some seed.
  if (seed % 2 == 1) request.sampling.top_p = 0.9f;
  if (seed % 3 == 1) request.sampling.top_k = 12;
  if (seed % 4 == 1) request.sampling.min_p = 0.02f;
  if (seed % 5 == 1) request.sampling.repetition_penalty = 1.2f;
  if (seed % 5 == 2) request.sampling.presence_penalty = 0.5f;
  if (seed % 5 == 3) request.sampling.frequency_penalty = 0.4f;
  if (seed % 6 == 1) request.sampling.logit_bias = {{97, 2.0f}, {98, -100.0f}};
  if (seed % 7 == 1) request.sampling.logprobs = 2;
  return request;
}

std::string describe(const Request& request) {
  return request.speculation->strategy + " " + request.speculation->shape + " " +
         request.speculation->source + " seed " + std::to_string(request.sampling.seed) +
         " temperature " + std::to_string(request.sampling.temperature);
}

// All requests at once: they share Steps.
std::vector<Output> complete_together(Engine& engine, const std::vector<Request>& requests) {
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (const Request& request : requests) {
    auto stream = engine.submit(request);
    if (!stream.ok()) {
      ADD_FAILURE() << stream.status().message();
      continue;
    }
    streams.push_back(*stream);
  }
  std::vector<Output> outputs;
  for (const auto& stream : streams) outputs.push_back(drain(*stream));
  return outputs;
}

void expect_same(const Output& plain, const Output& output, const std::string& what) {
  EXPECT_TRUE(output.error.ok()) << what << ": " << output.error.message();
  EXPECT_EQ(plain.tokens, output.tokens) << what;
  EXPECT_EQ(plain.text, output.text) << what;
  EXPECT_EQ(plain.reason, output.reason) << what;
  ASSERT_EQ(plain.logprobs.size(), output.logprobs.size()) << what;
  for (size_t idx = 0; idx < plain.logprobs.size(); ++idx) {
    ASSERT_EQ(plain.logprobs[idx].size(), output.logprobs[idx].size()) << what;
    for (size_t entry = 0; entry < plain.logprobs[idx].size(); ++entry) {
      EXPECT_EQ(plain.logprobs[idx][entry].token, output.logprobs[idx][entry].token) << what;
      EXPECT_EQ(plain.logprobs[idx][entry].logprob, output.logprobs[idx][entry].logprob) << what;
    }
  }
}

// Every shape and source of parallel_tree.
std::vector<Request> parallel_requests(Request request) {
  std::vector<Request> requests;
  for (const std::string& shape : kParallelShapes) {
    for (const std::string& source : kParallelSources) {
      request.speculation = SpeculationOptions{.strategy = "parallel_tree",
                                               .source = source,
                                               .shape = shape,
                                               .verify_tokens = 6,
                                               .draft_width = 3,
                                               .draft_depth = 2,
                                               .shared_noise = request.sampling.seed % 2 == 0};
      requests.push_back(request);
    }
  }
  return requests;
}

// serial_tree in every shape with guesses from `source`, and every parallel_tree.
void expect_every_tree_gives(const Output& plain, Engine& engine, Request request,
                             const std::string& source) {
  for (const std::string& shape : kShapes) {
    request.speculation =
        SpeculationOptions{.strategy = "serial_tree", .source = source, .shape = shape};
    expect_same(plain, complete(engine, request), describe(request));
  }
  for (const Request& parallel : parallel_requests(request)) {
    expect_same(plain, complete(engine, parallel), describe(parallel));
  }
}

class Lossless : public ::testing::TestWithParam<size_t> {};

TEST_P(Lossless, EveryShapeAndSourceEqualsPlainDecoding) {
  const Precision precision = precisions()[GetParam()];
  // A redrawn nibble is a larger change than a nudged weight.
  const bool is_int4 = precision.spec.quantization == ToySpec::Quantization::kAwq;
  const ToyPair pair(precision.spec, is_int4 ? 0.04f : 0.15f);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  int64_t accepted = 0, rejected = 0;
  for (uint64_t seed = 0; seed <= 20; ++seed) {
    Request request = request_of(seed, seed > 0);
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output plain = complete(*engine, request);
    ASSERT_TRUE(plain.error.ok()) << plain.error.message();
    ASSERT_EQ(plain.tokens.size(), 40u);
    std::vector<Request> requests;
    for (const std::string& shape : kShapes) {
      for (const std::string& source : kSources) {
        request.speculation = SpeculationOptions{.strategy = "serial_tree",
                                                 .source = source,
                                                 .shape = shape,
                                                 .verify_tokens = 6,
                                                 .draft_width = 2,
                                                 .draft_depth = 3,
                                                 .shared_noise = seed % 2 == 0};
        requests.push_back(request);
      }
    }
    for (Request& parallel : parallel_requests(request)) requests.push_back(std::move(parallel));
    const std::vector<Output> outputs = complete_together(*engine, requests);
    ASSERT_EQ(outputs.size(), requests.size());
    for (size_t idx = 0; idx < outputs.size(); ++idx) {
      expect_same(plain, outputs[idx], precision.name + " " + describe(requests[idx]));
      accepted += outputs[idx].stats.accepted_tokens;
      rejected += outputs[idx].stats.drafted_tokens - outputs[idx].stats.accepted_tokens;
    }
  }
  // The drafts must have been worth verifying, and must have been wrong often enough.
  EXPECT_GT(accepted, 2000);
  EXPECT_GT(rejected, 2000);
  EXPECT_EQ(engine->kv_blocks_in_use(), 0);
}

// Each model on a processor and a thread of its own, one, two and four requests at a time.
TEST_P(Lossless, SideBySideEqualsPlainDecoding) {
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  const Precision precision = precisions()[GetParam()];
  const bool is_int4 = precision.spec.quantization == ToySpec::Quantization::kAwq;
  const ToyPair pair(precision.spec, is_int4 ? 0.04f : 0.15f);
  const auto plain_engine = make_engine(pair.target(), pair.draft(), precision);
  const std::string draft_devices = test_devices("FORERUN_TEST_DRAFT_DEVICES");
  const auto engine = make_engine(pair.target(), pair.draft(), precision, 1,
                                  draft_devices.empty() ? processors.back() : draft_devices);
  ASSERT_NE(plain_engine, nullptr);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->info().numeric_fingerprint, plain_engine->info().numeric_fingerprint);
  int64_t accepted = 0;
  for (uint64_t seed = 0; seed <= 20; ++seed) {
    Request request = request_of(seed, seed > 0);
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output plain = complete(*plain_engine, request);
    std::vector<Request> requests = parallel_requests(request);
    // The other strategies run on split devices as well, beside these.
    request.speculation = SpeculationOptions{.strategy = "serial_tree", .source = "model"};
    requests.push_back(request);
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    requests.push_back(request);
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
  EXPECT_GT(accepted, 500);
  EXPECT_TRUE(releases_its_kv(*engine));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Lossless, ::testing::Range(size_t{0}, precisions().size()),
                         [](const auto& tested) { return precisions()[tested.param].name; });

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
    expect_every_tree_gives(plain, *engine, request, "model+suffix");
  }
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
  expect_every_tree_gives(plain, *engine, request, "model");
}

// Rule `rejection` at temperature 0 has nothing to draw: it must equal plain decoding too.
TEST(LosslessRejection, GreedyEqualsPlainDecoding) {
  const Precision precision = precisions().front();
  const ToyPair pair(precision.spec);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Request request = request_of(seed, false);
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output plain = complete(*engine, request);
    for (const std::string& shape : {std::string("chain"), std::string("2,2")}) {
      request.speculation = SpeculationOptions{
          .strategy = "serial_tree", .source = "model", .shape = shape, .accept = "rejection"};
      expect_same(plain, complete(*engine, request), describe(request));
    }
  }
}

TEST(LosslessDemoPair, ASliceOfTheProduct) {
  const std::filesystem::path models = std::filesystem::path(FORERUN_SOURCE_DIR) / "models";
  const auto engine = make_engine((models / "demo-target").string(),
                                  (models / "demo-draft").string(), Precision{}, 2);
  ASSERT_NE(engine, nullptr);
  const std::vector<std::string> prompts = {
      "def merge_sorted(left, right):\n    \"\"\"Merge two sorted lists.\"\"\"\n",
      "There was a silence in the drawing-room after he had gone. "};
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
      for (const std::string& shape : kShapes) {
        request.speculation =
            SpeculationOptions{.strategy = "serial_tree", .source = "model+suffix", .shape = shape};
        expect_same(plain, complete(*engine, request), describe(request));
      }
    }
  }
}

TEST(LosslessDemoPair, SideBySide) {
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  const std::filesystem::path models = std::filesystem::path(FORERUN_SOURCE_DIR) / "models";
  const auto engine =
      make_engine((models / "demo-target").string(), (models / "demo-draft").string(), Precision{},
                  1, processors.back());
  ASSERT_NE(engine, nullptr);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Request request;
    request.prompt = "def merge_sorted(left, right):\n    \"\"\"Merge two sorted lists.\"\"\"\n";
    request.max_new_tokens = 64;
    request.ignore_eos = true;
    request.sampling.temperature = seed == 0 ? 0.0f : 0.8f;
    request.sampling.seed = seed;
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output plain = complete(*engine, request);
    for (const Request& parallel : parallel_requests(request)) {
      const Output output = complete(*engine, parallel);
      expect_same(plain, output, describe(parallel));
      EXPECT_LT(output.stats.target_steps, 60);
    }
  }
}

}  // namespace
}  // namespace forerun::testing
