// The promise with trained heads as drafts: every policy that takes one gives what plain decoding
// gives, whatever the head's layout, alone and in batches, on shared prefixes, after preemption and
// while requests change their options, on groups of processors and on targets in stages. Random
// heads are hardly ever right; the demo target's is.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/head_specs_rig.h"
#include "lossless/lossless_cases.h"

namespace forerun::testing {
namespace {

// A group of two, on two processors where there are as many.
std::string two_devices() {
  const std::vector<std::string> two = two_processors();
  return two.empty() ? one_processor() + "," + one_processor() : two.front() + "," + two.back();
}

struct HeadCase {
  Precision precision;  // with the target's spec
  ToySpec head;
};

std::vector<HeadCase> head_cases() {
  HeadCase plain;
  plain.precision.name = "shared_embedding_and_head";
  plain.precision.draft_is_head = true;
  plain.precision.spec = drafted_toy();
  plain.precision.spec.num_layers = 6;
  plain.head = head_of(plain.precision.spec);
  std::vector<HeadCase> all = {plain};

  HeadCase next = plain;
  next.precision.name = "fewer_tokens_int8";
  next.precision.activations = "int8";
  next.head = with_fewer_tokens(plain.head);
  all.push_back(next);

  next = plain;
  next.precision.name = "two_layers_of_another_width_f32";
  next.precision.activations = "f32";
  next.precision.spec.family = "qwen3";
  next.head = with_layers_of_another_width(plain.head);
  all.push_back(next);

  // Prompts and answers are longer than the head's window.
  next = plain;
  next.precision.name = "a_short_context";
  next.precision.spec.family = "qwen2";
  next.head.head_layout = ToySpec::HeadLayout::kAngelSlim;
  next.head.max_position = 192;
  all.push_back(next);
  if (on_gpu()) {
    for (HeadCase& each : all) {
      each.precision.activations = "bf16";
      if (each.head.hidden_size % 32 != 0) each.head.hidden_size *= 2;  // what GPU layers take
    }
  }
  return all;
}

class LosslessHeads : public ::testing::TestWithParam<size_t> {
 protected:
  LosslessHeads() : tested_(head_cases()[GetParam()]), pair_(tested_.precision.spec, tested_.head) {
    options_.max_active_requests = 12;
    engine_ = make_engine(pair_.target(), pair_.draft(), tested_.precision, one_processor(), "",
                          options_);
  }

  const HeadCase tested_;
  const ToyPair pair_;
  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(LosslessHeads, EveryPolicyEqualsPlainDecoding) {
  ASSERT_NE(engine_, nullptr);
  int64_t accepted = 0, rejected = 0, draft_steps = 0;
  for (uint64_t seed = 0; seed < 17; ++seed) {
    Request request = request_of(seed, seed > 0);
    if (seed % 5 == 3) set_length(request, 300);
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output plain = complete(*engine_, request);
    ASSERT_TRUE(plain.error.ok()) << plain.error.message();
    const std::vector<Request> requests =
        part_of(by_every_policy(request, tested_.precision), GetParam() + seed);
    const std::vector<Output> outputs = complete_together(*engine_, requests);
    ASSERT_EQ(outputs.size(), requests.size());
    for (size_t idx = 0; idx < outputs.size(); ++idx) {
      expect_same(plain, outputs[idx], tested_.precision.name + " " + describe(requests[idx]));
      if (requests[idx].speculation->source != "model") continue;
      accepted += outputs[idx].stats.accepted_tokens;
      rejected += outputs[idx].stats.drafted_tokens - outputs[idx].stats.accepted_tokens;
      draft_steps += outputs[idx].stats.draft_steps;
    }
  }
  EXPECT_GT(draft_steps, in_part(2000));
  EXPECT_GT(accepted, in_part(20));
  EXPECT_GT(rejected, in_part(2000));
  EXPECT_EQ(engine_->kv_blocks_in_use(), 0);
}

// Requests that share a beginning, of several samples each, on KV memory that runs short.
TEST_P(LosslessHeads, UnderLoad) {
  ASSERT_NE(engine_, nullptr);
  const std::string shared(130, 'a');
  std::vector<Request> requests;
  std::vector<Output> plain;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Request request = request_of(seed, seed % 3 != 0);
    request.prompt = shared + request.prompt;
    set_length(request, 250);
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    plain.push_back(complete(*engine_, request));
    ASSERT_TRUE(plain.back().error.ok()) << plain.back().error.message();
    const std::vector<Request> policies =
        by_every_policy(request, tested_.precision, "serial_tree");
    request.speculation = policies[seed % policies.size()].speculation;
    requests.push_back(std::move(request));
  }
  // The least memory that leaves the context as it is; a draft's windows take their part of it.
  std::unique_ptr<Engine> tight;
  for (int64_t share = 2; share < 8; ++share) {
    options_.kv_memory_bytes = engine_->info().kv_bytes / options_.max_active_requests * share;
    tight = make_engine(pair_.target(), pair_.draft(), tested_.precision, one_processor(), "",
                        options_);
    ASSERT_NE(tight, nullptr);
    if (tight->info().max_context_tokens == engine_->info().max_context_tokens) break;
  }
  int32_t preemptions = 0;
  for (int wave = 0; wave < 3; ++wave) {
    const std::vector<Output> outputs = complete_together(*tight, requests);
    ASSERT_EQ(outputs.size(), requests.size());
    for (size_t idx = 0; idx < outputs.size(); ++idx) {
      expect_same(plain[idx], outputs[idx], describe(requests[idx]));
      preemptions += outputs[idx].stats.preemptions;
    }
  }
  EXPECT_GT(preemptions, 0) << "memory was to run short";
  EXPECT_TRUE(releases_its_kv(*tight));
}

// A target on a group of devices or in stages. At a degree all cuts give the whole model's tokens.
struct Spread {
  std::string whole;
  std::string devices;
  int32_t stages = 0;
  std::vector<int32_t> layers = {};
};

std::vector<Spread> spreads() {
  const std::string one = one_processor();
  const std::string pair = two_devices();
  const std::vector<std::string> two = two_processors();
  const std::string team = two.empty() ? one : two.front() + "+" + two.back().substr(4);
  const std::string three = pair + "," + one;
  return {{pair, pair},  {three, three},
          {one, one, 2}, {team, one + "/" + team + "/" + one, 0, {1, 4, 1}},
          {one, one, 6}, {pair, pair + "/" + pair}};
}

TEST_P(LosslessHeads, OnGroupsAndStages) {
  if (on_gpu()) GTEST_SKIP() << "groups and stages of processors";
  int64_t accepted = 0, rejected = 0;
  size_t combination = GetParam();
  for (const Spread& spread : spreads()) {
    if (!runs(combination++)) continue;
    SCOPED_TRACE(spread.devices + " in " + std::to_string(spread.stages));
    const auto whole = make_engine(pair_.target(), "", tested_.precision, spread.whole);
    EngineOptions options = options_;
    options.stages = spread.stages;
    options.stage_layers = spread.layers;
    const auto engine =
        make_engine(pair_.target(), pair_.draft(), tested_.precision, spread.devices, "", options);
    ASSERT_TRUE(whole != nullptr && engine != nullptr);
    EXPECT_EQ(engine->info().numeric_fingerprint, whole->info().numeric_fingerprint);
    for (uint64_t seed = 0; seed < 5; ++seed) {
      Request request = request_of(seed, seed > 0);
      if (seed == 3) set_length(request, 220);
      request.speculation = SpeculationOptions{.strategy = "autoregressive"};
      const Output plain = complete(*whole, request);
      ASSERT_TRUE(plain.error.ok()) << plain.error.message();
      const std::vector<Request> requests =
          slice(by_every_policy(request, tested_.precision), 3, combination + seed);
      const std::vector<Output> outputs = complete_together(*engine, requests);
      ASSERT_EQ(outputs.size(), requests.size());
      for (size_t idx = 0; idx < outputs.size(); ++idx) {
        expect_same(plain, outputs[idx], tested_.precision.name + " " + describe(requests[idx]));
        if (requests[idx].speculation->source != "model") continue;
        accepted += outputs[idx].stats.accepted_tokens;
        rejected += outputs[idx].stats.drafted_tokens - outputs[idx].stats.accepted_tokens;
      }
    }
    EXPECT_TRUE(releases_its_kv(*engine));
  }
  EXPECT_GT(accepted, in_part(10));
  EXPECT_GT(rejected, in_part(1000));
}

INSTANTIATE_TEST_SUITE_P(Heads, LosslessHeads, ::testing::Range(size_t{0}, head_cases().size()),
                         [](const auto& tested) {
                           return head_cases()[tested.param].precision.name;
                         });

// The demo target's head guesses better than the text so far does.
TEST(LosslessDemoHead, ASliceOfTheProduct) {
  const std::filesystem::path models = std::filesystem::path(FORERUN_SOURCE_DIR) / "models";
  Precision precision;
  precision.draft_is_head = true;
  const auto engine =
      make_engine((models / "demo-target").string(), (models / "demo-head").string(), precision);
  ASSERT_NE(engine, nullptr);
  const std::vector<std::string> prompts = {
      "class Queue:\n    \"\"\"First in, first out.\"\"\"\n\n    def __init__(self):\n",
      "She closed the letter, and for some time she did not speak. "};
  int64_t steps_with_head = 0, steps_with_text = 0;
  size_t turn = 0;
  for (const std::string& prompt : prompts) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Request request;
      request.prompt = prompt;
      set_length(request, 96);
      request.ignore_eos = true;
      request.sampling.temperature = seed == 0 ? 0.0f : 0.8f;
      request.sampling.seed = seed;
      request.speculation = SpeculationOptions{.strategy = "autoregressive"};
      const Output plain = complete(*engine, request);
      ASSERT_TRUE(plain.error.ok()) << plain.error.message();
      const auto steps_with = [&](const char* source) {
        request.speculation = SpeculationOptions{
            .strategy = "serial_tree", .source = source, .shape = "best", .verify_tokens = 16};
        const Output output = complete(*engine, request);
        expect_same(plain, output, describe(request));
        return output.stats.target_steps;
      };
      steps_with_head += steps_with("model");
      steps_with_text += steps_with("suffix");
      const size_t step = 8 * test_part();
      for (const Request& each :
           slice(by_every_policy(request, precision), step, turn * test_part())) {
        expect_same(plain, complete(*engine, each), describe(each));
      }
      ++turn;
    }
  }
  EXPECT_LT(5 * steps_with_head, 4 * steps_with_text) << "a head that fits guesses more";
  EXPECT_EQ(engine->kv_blocks_in_use(), 0);
}

// Hidden states that went through groups and stages must be the right ones: the same guesses come
// true as on one device.
TEST(LosslessDemoHead, GuessesAsWellOnGroupsAndStages) {
  if (on_gpu()) GTEST_SKIP() << "groups and stages of processors";
  const std::filesystem::path models = std::filesystem::path(FORERUN_SOURCE_DIR) / "models";
  Precision precision;
  precision.draft_is_head = true;
  Request request;
  request.prompt =
      "class Queue:\n    \"\"\"First in, first out.\"\"\"\n\n    def __init__(self):\n";
  set_length(request, 96);
  request.ignore_eos = true;
  request.sampling.temperature = 0.0f;
  request.speculation = SpeculationOptions{
      .strategy = "serial_tree", .source = "model", .shape = "best", .verify_tokens = 16};
  const auto steps_on = [&](const std::string& devices, int32_t stages) {
    EngineOptions options;
    options.stages = stages;
    const auto engine =
        make_engine((models / "demo-target").string(), (models / "demo-head").string(), precision,
                    devices, "", options);
    if (engine == nullptr) return int64_t{0};
    const Output output = complete(*engine, request);
    EXPECT_TRUE(output.error.ok()) << output.error.message();
    return output.stats.target_steps;
  };
  const int64_t whole = steps_on(one_processor(), 0);
  EXPECT_GT(whole, 0);
  EXPECT_LT(whole, 60);
  EXPECT_EQ(steps_on(one_processor(), 3), whole);
  // On a group the text may be another one, and with it what is guessed.
  EXPECT_LT(steps_on(two_devices(), 0), 60);
}

// What a head cannot do yet, or does not fit, is refused in a line.
TEST(HeadRefusals, SayWhatWouldBeAccepted) {
  if (on_gpu()) GTEST_SKIP() << "heads on processors";
  const HeadCase tested = head_cases().front();
  const ToyPair pair(tested.precision.spec, tested.head);
  EngineOptions options;
  options.model = pair.target();
  options.draft = pair.draft();
  options.devices = one_processor();
  const auto refusal = [&options] {
    const auto engine = Engine::create(options);
    return engine.ok() ? std::string("created") : engine.status().message();
  };
  const std::vector<std::string> processors = two_processors();
  if (!processors.empty()) {
    options.devices = processors.front();
    options.draft_devices = processors.back();
    EXPECT_NE(refusal().find("is a trained head, which runs on its target's devices: found draft "
                             "devices"),
              std::string::npos)
        << refusal();
    options.draft_devices.clear();
    options.devices = processors.front() + "," + processors.back();
    options.try_splits = true;
    EXPECT_NE(
        refusal().find(
            "found --auto, which tries splits of the devices; accepted with a head: no --auto"),
        std::string::npos)
        << refusal();
    options.try_splits = false;
  }
  options.devices = one_processor();
  options.stages = 2;
  options.speculation.strategy = "pipelined";
  EXPECT_NE(refusal().find("accepted with a head: strategy serial_tree, or source"),
            std::string::npos)
      << refusal();
  options.stages = 0;
  options.speculation.strategy = "parallel_tree";
  EXPECT_NE(refusal().find("accepted with a head: strategy serial_tree, or source"),
            std::string::npos)
      << refusal();
  options.speculation = {};
  ToySpec narrow = tested.precision.spec;
  narrow.hidden_size = 32;
  const ToyPair misfit(narrow, tested.head);
  options.model = misfit.target();
  EXPECT_NE(refusal().find("field \"target_hidden_size\": found 64; accepted: 32"),
            std::string::npos)
      << refusal();
}

}  // namespace
}  // namespace forerun::testing
