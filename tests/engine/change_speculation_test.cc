// Requests whose options change while they run: through the public interface, on real models.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitized.h"
#include "forerun/engine.h"
#include "strategies/every_policy.h"
#include "support/on_toy_pair_rig.h"

namespace forerun::testing {
namespace {

class ChangedSpeculation : public OnToyPair {
 protected:
  static Request request_of(uint64_t seed) {
    std::mt19937_64 random(seed);
    Request request;
    append_random_tokens(random, 100 + random() % 50, request.prompt_tokens);
    request.max_new_tokens = 300;
    request.ignore_eos = true;
    request.sampling.seed = seed;
    request.sampling.temperature = seed % 3 == 0 ? 0.0f : 0.9f;
    if (seed % 2 == 0) request.sampling.repetition_penalty = 1.2f;
    if (seed % 5 == 0) request.sampling.logprobs = 2;
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    return request;
  }
  // Changes to `later` once the first tokens are there; again until that was in time, which a
  // request of 300 tokens allows at the latest after a few.
  static Output change_once(Engine& engine, const Request& request,
                            const SpeculationOptions& later) {
    for (int attempt = 0; attempt < 50; ++attempt) {
      auto stream = engine.submit(request);
      EXPECT_TRUE(stream.ok()) << stream.status().message();
      if (!stream.ok()) return {};
      const auto first = (*stream)->next();
      EXPECT_TRUE(first.has_value());
      const Status changed = (*stream)->change_speculation(later);
      EXPECT_TRUE(changed.ok()) << changed.message();
      Output output = drain(**stream);
      output.tokens.insert(output.tokens.begin(), first->tokens.begin(), first->tokens.end());
      if (output.stats.strategy_changes > 0) return output;
    }
    ADD_FAILURE() << "no change was in time";
    return {};
  }
};

TEST_F(ChangedSpeculation, BeginsAndEndsWithoutReadingTheTextAgain) {
  EngineOptions options;
  options.trace = true;
  const auto engine = make(options);
  ASSERT_NE(engine, nullptr);
  Request request = request_of(1);
  request.share_prefix = false;
  const Output plain = complete(*engine, request);
  std::vector<SpeculationOptions> policies = {
      {.strategy = "autoregressive"},
      {.strategy = "serial_tree", .source = "model", .shape = "best"},
      {.strategy = "parallel_tree", .shape = "best"}};
  if (!kSanitized) {
    policies.push_back({.strategy = "serial_tree", .source = "suffix", .shape = "best"});
  }
  for (const SpeculationOptions& first : policies) {
    for (const SpeculationOptions& later : policies) {
      SCOPED_TRACE(policy_name(first) + " to " + policy_name(later));
      request.speculation = first;
      engine->take_trace();
      const Output output = change_once(*engine, request, later);
      EXPECT_EQ(output.tokens, plain.tokens);
      EXPECT_EQ(output.reason, FinishReason::kLength);
      EXPECT_EQ(output.stats.strategy, later.strategy);
      EXPECT_EQ(output.stats.strategy_changes, 1);
      if (first.strategy != later.strategy && later.strategy != "autoregressive") {
        EXPECT_GT(output.stats.drafted_tokens, 0);
      }
      // Each request reads its prompt in one Step of each model.
      uint64_t last = 0;
      int32_t reads[2] = {0, 0};
      for (const TraceStep& step : engine->take_trace().steps) {
        for (const TraceItem& item : step.items) {
          if (item.request != last) reads[0] = reads[1] = 0;
          last = item.request;
          if (item.rows > 64) ++reads[step.draft ? 1 : 0];
        }
      }
      EXPECT_EQ(reads[0], 1);
      EXPECT_LE(reads[1], 1);
    }
  }
  EXPECT_EQ(engine->kv_blocks_in_use(), 0);
}

TEST_F(ChangedSpeculation, ChangesAtAnyMomentOnLittleMemory) {
  constexpr uint64_t kRequests = kSanitized ? 8 : 40;
  // Steps are slower under sanitizers, and changes as frequent in them.
  constexpr uint32_t kLongestPauseUs = kSanitized ? 10000 : 500;
  EngineOptions options;
  options.max_active_requests = 16;
  const auto plain_engine = make(options);
  ASSERT_NE(plain_engine, nullptr);
  std::vector<Output> plain;
  for (uint64_t seed = 0; seed < kRequests; ++seed) {
    plain.push_back(complete(*plain_engine, request_of(seed)));
  }
  // Room for four whole contexts.
  options.kv_memory_bytes = plain_engine->info().kv_bytes / options.max_active_requests * 4;
  const auto engine = make(options);
  ASSERT_NE(engine, nullptr);
  const std::vector<SpeculationOptions> policies = every_exact_policy();
  std::vector<std::shared_ptr<RequestStream>> streams;
  std::mt19937 random(5);
  for (uint64_t seed = 0; seed < kRequests; ++seed) {
    Request request = request_of(seed);
    request.speculation = policies[random() % policies.size()];
    request.priority = static_cast<int32_t>(random() % 3);
    auto stream = engine->submit(std::move(request));
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    streams.push_back(*stream);
  }
  std::atomic<bool> done{false};
  std::thread changer([&] {
    std::mt19937 moments(6);
    while (!done) {
      std::this_thread::sleep_for(std::chrono::microseconds(moments() % kLongestPauseUs));
      const SpeculationOptions& policy = policies[moments() % policies.size()];
      EXPECT_TRUE(streams[moments() % streams.size()]->change_speculation(policy).ok());
    }
  });
  int64_t changes = 0;
  int64_t preemptions = 0;
  for (uint64_t seed = 0; seed < kRequests; ++seed) {
    const Output output = drain(*streams[seed]);
    EXPECT_EQ(output.tokens, plain[seed].tokens) << seed;
    EXPECT_EQ(output.text, plain[seed].text) << seed;
    changes += output.stats.strategy_changes;
    preemptions += output.stats.preemptions;
  }
  done = true;
  changer.join();
  EXPECT_GT(changes, 10);
  EXPECT_GT(preemptions, 0);
  EXPECT_TRUE(releases_its_kv(*engine));
}

TEST_F(ChangedSpeculation, ReachesSamplesAndThoseThatWait) {
  EngineOptions options;
  options.max_active_requests = 1;
  const auto engine = make(options);
  ASSERT_NE(engine, nullptr);
  const auto running = engine->submit(request_of(1)).value();
  ASSERT_TRUE(running->next().has_value());
  Request request = request_of(2);
  request.num_samples = 3;
  const auto waiting = engine->submit(request).value();
  ASSERT_TRUE(waiting->change_speculation({.strategy = "serial_tree", .source = "suffix"}).ok());
  drain(*running);
  int finished = 0;
  while (const auto event = waiting->next()) {
    if (!event->finished) continue;
    ++finished;
    EXPECT_EQ(event->stats.strategy, "serial_tree");
    EXPECT_EQ(event->stats.strategy_changes, 1);
    EXPECT_EQ(event->reason, FinishReason::kLength);
  }
  EXPECT_EQ(finished, 3);
}

TEST_F(ChangedSpeculation, IsRefusedAsAtSubmission) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  Request request = request_of(3);
  const Output plain = complete(*engine, request);
  const auto stream = engine->submit(request).value();
  const std::vector<SpeculationOptions> wrong = {
      {.strategy = "tarot"},
      {.strategy = "autoregressive", .draft_width = 3},
      {.strategy = "parallel_tree", .accept = "rejection"},
      {.strategy = "serial_tree", .verify_tokens = 1000}};
  for (const SpeculationOptions& options : wrong) {
    Request submitted = request;
    submitted.speculation = options;
    const Status at_submission = engine->submit(submitted).status();
    const Status later = stream->change_speculation(options);
    EXPECT_EQ(later.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(later.message(), at_submission.message());
  }
  const Output output = drain(*stream);
  EXPECT_EQ(output.tokens, plain.tokens);
  EXPECT_EQ(output.stats.strategy_changes, 0);
}

TEST_F(ChangedSpeculation, OfARequestThatHasEndedChangesNothing) {
  auto engine = make();
  ASSERT_NE(engine, nullptr);
  Request request = request_of(4);
  request.max_new_tokens = 2;
  const auto stream = engine->submit(request).value();
  drain(*stream);
  EXPECT_TRUE(stream->change_speculation({.strategy = "serial_tree"}).ok());
  engine.reset();
  EXPECT_TRUE(stream->change_speculation({.strategy = "autoregressive"}).ok());
  EXPECT_FALSE(stream->change_speculation({.strategy = "tarot"}).ok());
}

}  // namespace
}  // namespace forerun::testing
