// The engine through its public interface: deadlines, refusals, preemption, its end. Many requests
// at once: many_requests_test.cc.
#include "forerun/engine.h"

#include <gtest/gtest.h>

#include <random>

#include "base/sanitized.h"
#include "strategies/every_policy.h"
#include "support/on_toy_pair_rig.h"

namespace forerun::testing {
namespace {

class EngineTest : public OnToyPair {
 protected:
  // Both processors as one device, to be split between the models.
  static EngineOptions to_split(const std::vector<std::string>& processors) {
    EngineOptions options;
    options.devices = processors[0] + "+" + processors[1].substr(4);
    options.try_splits = true;
    return options;
  }

  static Request request_of(uint64_t seed) {
    std::mt19937_64 random(seed);
    Request request;
    append_random_tokens(random, 1 + random() % 90, request.prompt_tokens);
    request.max_new_tokens = static_cast<int32_t>(1 + random() % 60);
    request.ignore_eos = true;
    request.sampling.temperature = seed % 3 == 0 ? 0.0f : 0.9f;
    request.sampling.seed = seed;
    static const std::vector<SpeculationOptions> policies = every_exact_policy();
    request.speculation = policies[random() % policies.size()];
    return request;
  }
};

// Each of these fills most of the cache with guesses before its first token.
TEST_F(EngineTest, RequestsThatDraftFarAheadDoNotStartOverForEver) {
  constexpr size_t kTokens = kThreadSanitized ? 5 : 30;
  const int64_t token_bytes = 2 * 2 * 2 * 16 * 2;
  EngineOptions options;
  options.kv_memory_bytes = 2 * 26 * 64 * token_bytes;
  const auto engine = make(options);
  ASSERT_NE(engine, nullptr);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Request request = request_of(seed);
    request.prompt_tokens.resize(40, 1);
    request.max_new_tokens = kTokens;
    request.speculation = SpeculationOptions{.strategy = "parallel_tree",
                                             .source = "model",
                                             .shape = "best",
                                             .draft_width = 12,
                                             .draft_depth = 16};
    streams.push_back(*engine->submit(request));
  }
  for (const auto& stream : streams) {
    const Output output = drain(*stream);
    EXPECT_TRUE(output.error.ok()) << output.error.message();
    EXPECT_EQ(output.tokens.size(), kTokens);
  }
}

TEST_F(EngineTest, AutoMeansParallelTreeWhereTheDraftHasItsOwnProcessors) {
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  EngineOptions options;
  options.devices = processors[0];
  options.draft_devices = processors[1];
  const auto engine = make(options);
  ASSERT_NE(engine, nullptr);
  Request request = request_of(5);
  request.speculation = SpeculationOptions{};
  EXPECT_EQ(complete(*engine, request).stats.strategy, "parallel_tree");
  request.speculation->shape = "chain";
  EXPECT_EQ(complete(*engine, request).stats.strategy, "serial_tree");
  EXPECT_NE(engine->info().planner_report.find("parallel_tree"), std::string::npos);
}

TEST_F(EngineTest, TryingSplitsKeepsOneAndChangesNoToken) {
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  EngineOptions options = to_split(processors);
  const auto engine = make(options);
  const auto plain = make({});
  ASSERT_TRUE(engine && plain);
  const std::string& report = engine->info().planner_report;
  EXPECT_NE(report.find("both models sequentially"), std::string::npos) << report;
  EXPECT_NE(report.find(", draft " + processors[1]), std::string::npos) << report;
  EXPECT_NE(report.find("kept: "), std::string::npos) << report;
  EXPECT_NE(report.find(engine->info().numeric_fingerprint), std::string::npos) << report;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Request request = request_of(seed);
    request.speculation = SpeculationOptions{};
    EXPECT_EQ(complete(*engine, request).tokens, complete(*plain, request).tokens);
  }
}

// parallel_tree does not take the text alone; trials and requests then go by serial_tree.
TEST_F(EngineTest, TryingSplitsIsDoneWithTheEnginesSourceOfGuesses) {
  if (kThreadSanitized) GTEST_SKIP() << "the splits are those of TryingSplitsKeepsOne";
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  EngineOptions options = to_split(processors);
  options.speculation.source = "suffix";
  const auto engine = make(options);
  const auto plain = make({});
  ASSERT_TRUE(engine && plain);
  Request request = request_of(2);
  request.speculation.reset();
  const Output output = complete(*engine, request);
  EXPECT_EQ(output.tokens, complete(*plain, request).tokens);
  EXPECT_EQ(output.stats.strategy, "serial_tree");
  EXPECT_EQ(output.stats.draft_steps, 0);

  options.model = pair_->target();
  options.draft = pair_->draft();
  options.speculation.source = "oracle";
  const auto refused = Engine::create(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("oracle"), std::string::npos)
      << refused.status().message();
}

// The draft has nothing to give to a second device of a group.
TEST_F(EngineTest, TryingSplitsLeavesOutThoseThatCannotBeLoaded) {
  if (kThreadSanitized) GTEST_SKIP() << "the splits are those of TryingSplitsKeepsOne";
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  ToySpec narrow = drafted_toy();
  narrow.num_layers = 1;
  narrow.hidden_size = 32;
  narrow.intermediate_size = 16;
  narrow.num_heads = narrow.num_kv_heads = 1;
  const TempDir dir;
  ASSERT_TRUE(write_toy_model(dir.path(), narrow).ok());
  EngineOptions options;
  options.model = pair_->target();
  options.draft = dir.path().string();
  options.devices = processors[0] + "," + processors[1];
  options.try_splits = true;
  const auto engine = Engine::create(options);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const std::string& report = (*engine)->info().planner_report;
  EXPECT_NE(report.find("both models sequentially is left out: "), std::string::npos) << report;
  EXPECT_NE(report.find("tensor parallelism: device 1 of 2"), std::string::npos) << report;
  EXPECT_NE(report.find("kept: target " + processors[0] + ", draft " + processors[1]),
            std::string::npos)
      << report;
  Request request = request_of(0);
  request.speculation = SpeculationOptions{};
  const auto plain = make({});
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(complete(**engine, request).tokens, complete(*plain, request).tokens);

  // Where nothing can be loaded, that is the answer.
  options.max_context_tokens = 1 << 20;
  const auto refused = Engine::create(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("no split of the processors can be used"),
            std::string::npos)
      << refused.status().message();
}

TEST_F(EngineTest, TryingSplitsNeedsADraftWithoutDevices) {
  EngineOptions options;
  options.model = pair_->target();
  options.try_splits = true;
  const auto expect_refused = [&](const std::string& word) {
    const auto engine = Engine::create(options);
    ASSERT_FALSE(engine.ok()) << word;
    EXPECT_EQ(engine.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(engine.status().message().find(word), std::string::npos) << engine.status().message();
  };
  expect_refused("no draft model");
  options.draft = pair_->draft();
  options.devices = "cpu:0";
  options.draft_devices = "cpu:1";
  expect_refused("cpu:1");
  options.draft_devices.clear();
  options.emulate = "bench/profiles/swiftspec.json#qwen2-72b-serial";
  expect_refused("emulate");
}

TEST_F(EngineTest, DraftDevicesNeedADraftAndProcessorsOfTheirOwn) {
  EngineOptions options;
  options.model = pair_->target();
  options.devices = "cpu:0";
  options.draft_devices = "cpu:0";
  const auto expect_refused = [&](const std::string& word) {
    const auto engine = Engine::create(options);
    ASSERT_FALSE(engine.ok()) << word;
    EXPECT_EQ(engine.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(engine.status().message().find(word), std::string::npos) << engine.status().message();
  };
  expect_refused("cpu:0");
  options.draft_devices = "cpu:1";
  expect_refused("no draft model");
  options.draft_devices = "cuda:0";
  expect_refused("cuda:0");
}

TEST_F(EngineTest, WeightsOfADraftAreCheckedByName) {
  EngineOptions options;
  options.model = pair_->target();
  options.draft = pair_->draft();
  options.draft_weights = "int4_head";  // for GPUs
  const auto on_processors = Engine::create(options);
  ASSERT_FALSE(on_processors.ok());
  EXPECT_EQ(on_processors.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(on_processors.status().message().find("'int4_head'; accepted on processors: auto"),
            std::string::npos);
  options.devices = "cuda:0";  // refused before any GPU is looked for
  const auto narrow = Engine::create(options);
  ASSERT_FALSE(narrow.ok());
  EXPECT_NE(narrow.status().message().find("hidden_size is 64; accepted: multiples of 128"),
            std::string::npos)
      << narrow.status().message();
  options.draft.clear();
  const auto alone = Engine::create(options);
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.status().message().find("there is no draft model"), std::string::npos);
  options.draft = pair_->draft();
  options.devices.clear();
  options.draft_weights = "int3";
  const auto unknown = Engine::create(options);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("int8_head, int4_head and int4"), std::string::npos);
  options.draft_weights = "auto";
  options.weights = "int4_head";  // too coarse for a target
  EXPECT_EQ(Engine::create(options).status().code(), StatusCode::kInvalidArgument);
  options.weights = "int8";
  options.devices = "cuda:0";
  const auto layers = Engine::create(options);
  ASSERT_FALSE(layers.ok());
  EXPECT_NE(layers.status().message().find(
                "weights: found 'int8'; accepted on a GPU: as_stored and int8_head"),
            std::string::npos)
      << layers.status().message();
}

TEST_F(EngineTest, ADeadlineEndsARequestWithAnError) {
  const auto engine = make({});
  ASSERT_NE(engine, nullptr);
  Request request = request_of(4);
  request.max_new_tokens = 400;
  request.deadline = std::chrono::milliseconds(1);
  // Enough neighbours that a millisecond cannot suffice.
  std::vector<std::shared_ptr<RequestStream>> others;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Request other = request_of(seed);
    other.max_new_tokens = kThreadSanitized ? 20 : 100;
    others.push_back(*engine->submit(other));
  }
  const Output output = complete(*engine, request);
  EXPECT_EQ(output.reason, FinishReason::kError);
  EXPECT_EQ(output.error.code(), StatusCode::kDeadlineExceeded);
  for (const auto& other : others) EXPECT_TRUE(drain(*other).error.ok());
}

// Callers pass the longest duration to mean "as long as it takes".
TEST_F(EngineTest, TheLongestDurationIsNotOver) {
  const auto engine = make({});
  ASSERT_NE(engine, nullptr);
  Request request = request_of(4);
  request.max_new_tokens = 20;
  const Output expected = complete(*engine, request);
  for (const auto longest :
       {std::chrono::milliseconds::max(), std::chrono::milliseconds(INT64_MAX / 1'000'000)}) {
    request.deadline = longest;
    const auto stream = *engine->submit(request);
    Output output;
    bool has_finished = false;
    while (const auto event = stream->next_for(longest)) {
      output.tokens.insert(output.tokens.end(), event->tokens.begin(), event->tokens.end());
      EXPECT_TRUE(event->error.ok()) << event->error.message();
      has_finished = event->finished;
    }
    EXPECT_TRUE(has_finished);
    EXPECT_EQ(output.tokens, expected.tokens);
  }
  // A duration below 0 is over at once.
  const auto queue = *CompletionQueue::create();
  EXPECT_FALSE(queue->next_for(std::chrono::milliseconds::min()).has_value());
}

TEST_F(EngineTest, EventsSayWhenTheirTokensCame) {
  const auto engine = make({});
  ASSERT_NE(engine, nullptr);
  Request request = request_of(1);
  request.max_new_tokens = 40;
  const auto submitted = std::chrono::steady_clock::now();
  auto stream = engine->submit(std::move(request));
  ASSERT_TRUE(stream.ok()) << stream.status().message();
  double last = 0.0;
  RequestStats stats;
  while (const auto event = (*stream)->next()) {
    if (!event->tokens.empty()) {
      EXPECT_GT(event->time_s, last);
      last = event->time_s;
    }
    if (event->finished) stats = event->stats;
  }
  EXPECT_NEAR(last, stats.time_to_first_token_s + stats.decode_s, 1e-9);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - submitted;
  EXPECT_LE(last, waited.count());
}

TEST_F(EngineTest, RefusedRequestsDisturbNobody) {
  const auto engine = make({});
  ASSERT_NE(engine, nullptr);
  const auto running = engine->submit(request_of(1));
  ASSERT_TRUE(running.ok());
  const auto expect_refused = [&](const Request& request, const std::string& word) {
    const auto stream = engine->submit(request);
    ASSERT_FALSE(stream.ok()) << word;
    EXPECT_NE(stream.status().message().find(word), std::string::npos) << stream.status().message();
  };
  Request request;
  expect_refused(request, "prompt");
  request = request_of(2);
  request.prompt_tokens.assign(600, 1);
  expect_refused(request, "512");
  request = request_of(2);
  request.prompt_tokens = {1, 256};
  expect_refused(request, "256");
  request.prompt_tokens = {-1};
  expect_refused(request, "-1");
  request = request_of(2);
  request.sampling.temperature = -1.0f;
  expect_refused(request, "temperature");
  request = request_of(2);
  request.speculation = SpeculationOptions{.strategy = "magic"};
  expect_refused(request, "magic");
  request.speculation = SpeculationOptions{.strategy = "autoregressive", .draft_width = 4};
  expect_refused(request, "draft_width: found 4");
  request = request_of(2);
  request.sampling.logit_bias = {{1000, 1.0f}};
  expect_refused(request, "1000");
  EXPECT_TRUE(drain(**running).error.ok());
}

// Several prompts with one beginning, several samples of one prompt, the same prompt again later:
// the tokens of requests that share nothing, with less computed.
TEST_F(EngineTest, RequestsThatBeginAlikeShareItsKv) {
  const auto run_all = [](Engine& engine, bool share) {
    std::vector<std::shared_ptr<RequestStream>> streams;
    for (uint64_t seed = 0; seed < (kSanitized ? 12 : 24); ++seed) {
      Request request = request_of(seed % (kSanitized ? 4 : 8));
      for (int32_t token = 0; token < 200; ++token) {
        request.prompt_tokens.insert(
            request.prompt_tokens.begin(),
            static_cast<int32_t>(static_cast<uint64_t>(token) * (seed % 3 + 5) % 256));
      }
      // Others go by any policy; what the table of them has decides which.
      if (seed % 2 == 0) request.speculation.reset();
      request.sampling.seed = seed;
      request.share_prefix = share;
      streams.push_back(*engine.submit(request));
    }
    std::vector<Output> outputs;
    for (const auto& stream : streams) outputs.push_back(drain(*stream));
    return outputs;
  };
  // Trees of a set size: the draft reads every prompt, whatever that costs at the moment.
  EngineOptions options;
  options.speculation.strategy = "serial_tree";
  options.speculation.shape = "best";
  const auto sharing = make(options);
  options.share_prefixes = false;
  const auto apart = make(options);
  ASSERT_TRUE(apart && sharing);
  const std::vector<Output> expected = run_all(*apart, true);
  // At once; again, when all have ended; and by requests that refuse.
  int64_t prompt_tokens = 0;
  int64_t reused[3] = {};
  int64_t draft_reused[3] = {};
  for (int turn = 0; turn < 3; ++turn) {
    const std::vector<Output> outputs = run_all(*sharing, turn < 2);
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].tokens, expected[i].tokens) << i;
      EXPECT_EQ(expected[i].stats.reused_tokens, 0);
      reused[turn] += outputs[i].stats.reused_tokens;
      draft_reused[turn] += outputs[i].stats.draft_reused_tokens;
      if (turn == 0) prompt_tokens += outputs[i].stats.prompt_tokens;
    }
  }
  EXPECT_GT(2 * reused[0], prompt_tokens);
  EXPECT_GT(reused[1], reused[0]);
  EXPECT_GT(draft_reused[0], 0);
  EXPECT_GT(draft_reused[1], draft_reused[0]);
  EXPECT_EQ(reused[2] + draft_reused[2], 0);
  EXPECT_TRUE(releases_its_kv(*sharing));
}

TEST_F(EngineTest, StreamsOutliveTheEngine) {
  std::shared_ptr<RequestStream> stream;
  {
    const auto engine = make({});
    ASSERT_NE(engine, nullptr);
    Request request = request_of(7);
    request.max_new_tokens = 400;
    stream = *engine->submit(request);
  }
  const Output output = drain(*stream);
  EXPECT_TRUE(output.reason == FinishReason::kCancelled || output.reason == FinishReason::kLength);
  stream->cancel();
  EXPECT_FALSE(stream->next().has_value());
}

TEST_F(EngineTest, AForeignDraftIsRefused) {
  EngineOptions options;
  options.model = pair_->target();
  options.draft = std::string(FORERUN_SOURCE_DIR) + "/models/demo-draft";
  const auto engine = Engine::create(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.status().message().find("tokenizer"), std::string::npos);
}

}  // namespace
}  // namespace forerun::testing
