// Many requests of mixed lengths and policies, 64 at a time, on little memory: all of them end,
// each as it would have alone, and nothing is left behind.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "base/sanitized.h"
#include "base/test_part.h"
#include "forerun/engine.h"
#include "strategies/every_policy.h"
#include "support/create_engine_rig.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

constexpr uint64_t kLongRequests = kSanitized ? 12 : 80;
constexpr int32_t kContext = 512;

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

// Each strategy as often as the others.
SpeculationOptions policy_of(std::mt19937_64& random) {
  const auto strategies = strategy_table();
  const char* const strategy = strategies[random() % strategies.size()].name;
  const std::vector<SpeculationOptions> policies = policies_of(strategy, every_exact_policy());
  return policies[random() % policies.size()];
}

// Prompts of 1 to 320 tokens, outputs of 1 to 279.
Request mixed_request(uint64_t seed) {
  std::mt19937_64 random(seed);
  Request request;
  const uint64_t longest = seed % 10 == 0 ? 250 : 60;
  // Every third has the same beginning as others: a system prompt.
  if (seed % 3 == 0) {
    for (int32_t token = 0; token < 70; ++token) request.prompt_tokens.push_back(7 * token % 256);
  }
  append_random_tokens(random, 1 + random() % longest, request.prompt_tokens);
  // The first ones grow to four blocks and more each, which admission does not foresee.
  request.max_new_tokens =
      static_cast<int32_t>(seed < kLongRequests ? 220 + random() % 60 : 1 + random() % 90);
  request.ignore_eos = true;
  request.speculation = policy_of(random);
  SamplingOptions& sampling = request.sampling;
  sampling.temperature = random() % 3 == 0 ? 0.0f : 0.9f;
  sampling.seed = seed;
  if (random() % 4 == 0) sampling.top_p = 0.9f;
  if (random() % 5 == 0) sampling.repetition_penalty = 1.2f;
  if (random() % 5 == 0) sampling.presence_penalty = 0.5f;
  return request;
}

// A pair of models and how it is run.
struct Setting {
  std::string target, draft;
  int64_t token_bytes = 0;  // bytes of KV, both models together
  uint64_t requests = 0;
  int64_t blocks = 0;  // blocks of either model
  double step_budget_ms = 0.0;
};

class ManyRequests : public ::testing::Test {
 protected:
  static std::unique_ptr<Engine> make(const Setting& setting, EngineOptions options) {
    options.model = setting.target;
    options.draft = setting.draft;
    options.max_context_tokens = kContext;
    if (options.devices.empty()) options.devices = one_processor();
    return create_engine(options);
  }
  static std::vector<Output> alone(const Setting& setting) {
    std::vector<Output> outputs;
    const auto engine = make(setting, {});
    for (uint64_t seed = 0; engine && seed < setting.requests; ++seed) {
      outputs.push_back(complete(*engine, mixed_request(seed)));
      EXPECT_TRUE(outputs.back().error.ok()) << outputs.back().error.message();
    }
    return outputs;
  }

  static void expect_as_alone(uint64_t seed, const Output& output,
                              const std::vector<int32_t>& alone) {
    if (output.reason == FinishReason::kLength) {
      EXPECT_EQ(output.tokens, alone) << seed;
      return;
    }
    // Cut short: what came out is the beginning.
    ASSERT_LE(output.tokens.size(), alone.size()) << seed;
    EXPECT_TRUE(std::equal(output.tokens.begin(), output.tokens.end(), alone.begin())) << seed;
  }

  // All requests, of three priorities and at random moments; a fifth of them cancelled at others,
  // and one in 25 with a deadline that may pass. Returns how often one was preempted.
  static int64_t play_all(Engine& engine, const std::vector<Output>& solo, uint32_t wave);
  static void play_waves(const Setting& setting, const std::vector<Output>& solo,
                         const std::vector<std::string>& devices);
};

int64_t ManyRequests::play_all(Engine& engine, const std::vector<Output>& solo, uint32_t wave) {
  std::mt19937 random(wave);
  std::vector<std::shared_ptr<RequestStream>> streams;
  const auto is_cancelled = [&](uint64_t seed) { return seed % 5 == wave % 5; };
  const auto is_hurried = [&](uint64_t seed) { return seed % 25 == (wave + 1) % 25; };
  for (uint64_t seed = 0; seed < solo.size(); ++seed) {
    Request request = mixed_request(seed);
    if (seed % 2 == 0) request.deadline = std::chrono::minutes(30);
    if (is_hurried(seed)) request.deadline = std::chrono::milliseconds(1 + random() % 300);
    request.priority = static_cast<int32_t>(random() % 3) - 1;
    // Some arrive while others decode.
    if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    auto stream = engine.submit(std::move(request));
    EXPECT_TRUE(stream.ok()) << stream.status().message();
    if (!stream.ok()) return 0;
    streams.push_back(*stream);
  }
  std::thread canceller([&] {
    std::mt19937 moments(wave + 100);
    for (uint64_t seed = 0; seed < solo.size(); ++seed) {
      if (!is_cancelled(seed)) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(moments() % 8000));
      streams[seed]->cancel();
    }
  });
  int64_t preemptions = 0;
  for (uint64_t seed = 0; seed < solo.size(); ++seed) {
    const Output output = drain(*streams[seed]);
    preemptions += output.stats.preemptions;
    const bool late = output.error.code() == StatusCode::kDeadlineExceeded;
    EXPECT_TRUE(output.error.ok() || (late && is_hurried(seed))) << output.error.message();
    EXPECT_TRUE(output.reason == FinishReason::kLength || is_cancelled(seed) || late) << seed;
    expect_as_alone(seed, output, solo[seed].tokens);
  }
  canceller.join();
  EXPECT_TRUE(releases_its_kv(engine));
  return preemptions;
}

void ManyRequests::play_waves(const Setting& setting, const std::vector<Output>& solo,
                              const std::vector<std::string>& devices) {
  EngineOptions options;
  options.devices = devices[0];
  options.draft_devices = devices[1];
  options.kv_memory_bytes = setting.blocks * 64 * setting.token_bytes;
  options.max_active_requests = 64;
  options.step_budget_ms = setting.step_budget_ms;
  const auto engine = make(setting, options);
  ASSERT_NE(engine, nullptr);
  int64_t preemptions = play_all(*engine, solo, 0);
  const int64_t warm = resident_bytes();
  preemptions += play_all(*engine, solo, 1);
  EXPECT_GT(preemptions, 0) << "memory was to run short";
  // The second time everything is there already; what malloc keeps varies a little.
  if (!kSanitized) {
    EXPECT_LT(resident_bytes() - warm, 4 << 20);
  }
}

class ManyRequestsToToys : public ManyRequests {
 protected:
  static void SetUpTestSuite() {
    const uint64_t requests = test_part() > 1 ? 200 : 500;
    pair_ = new ToyPair(drafted_toy());
    // K and V, layers, KV heads, width, bf16; of either model.
    setting_ = new Setting{pair_->target(), pair_->draft(), 2 * (2 * 2 * 2 * 16 * 2),
                           kSanitized ? 25u : requests, kSanitized ? 40 : 130};
    solo_ = new std::vector<Output>(alone(*setting_));
  }
  static void TearDownTestSuite() {
    delete solo_;
    delete setting_;
    delete pair_;
  }

  static ToyPair* pair_;
  static Setting* setting_;
  static std::vector<Output>* solo_;
};

ToyPair* ManyRequestsToToys::pair_ = nullptr;
Setting* ManyRequestsToToys::setting_ = nullptr;
std::vector<Output>* ManyRequestsToToys::solo_ = nullptr;

TEST_F(ManyRequestsToToys, EqualTheirSoloRunsOneModelAfterTheOther) {
  play_waves(*setting_, *solo_, {one_processor(), ""});
}

TEST_F(ManyRequestsToToys, EqualTheirSoloRunsConcurrently) {
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  // Next to nothing: every prompt is read in the smallest pieces there are.
  Setting setting = *setting_;
  setting.step_budget_ms = 1e-3;
  play_waves(setting, *solo_, processors);
}

// Two requests of equal length run out of memory in the same Step: neither can go on beside the
// other, but each can alone.
TEST_F(ManyRequestsToToys, TwoThatFailInOneStepFinishOneAfterTheOther) {
  EngineOptions options;
  // 12 blocks, heads being padded to twice their width; either request grows to 8.
  options.kv_memory_bytes = 12 * 64 * 2 * setting_->token_bytes;
  const auto engine = make(*setting_, options);
  ASSERT_NE(engine, nullptr);
  const auto request_of = [](int32_t first_token) {
    Request request;
    for (int32_t i = 0; i < 65; ++i) request.prompt_tokens.push_back((first_token + 3 * i) % 256);
    request.max_new_tokens = 430;
    request.ignore_eos = true;
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    return request;
  };
  const auto roomy = make(*setting_, {});
  ASSERT_NE(roomy, nullptr);
  for (int round = 0; round < 3; ++round) {
    const auto first = engine->submit(request_of(round));
    const auto second = engine->submit(request_of(100 + round));
    ASSERT_TRUE(first.ok() && second.ok());
    const Output outputs[] = {drain(**first), drain(**second)};
    for (const Output& output : outputs) {
      EXPECT_TRUE(output.error.ok()) << output.error.message();
    }
    EXPECT_EQ(outputs[0].tokens, complete(*roomy, request_of(round)).tokens);
    EXPECT_EQ(outputs[1].tokens, complete(*roomy, request_of(100 + round)).tokens);
  }
  EXPECT_TRUE(releases_its_kv(*engine));
}

// Handles, events, strategies, KV and its books: nothing of a request stays once it has ended.
TEST_F(ManyRequestsToToys, TenThousandLeaveNothingBehind) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep books of their own";
  EngineOptions options;
  options.max_active_requests = 64;
  const auto engine = make(*setting_, options);
  ASSERT_NE(engine, nullptr);
  const std::vector<SpeculationOptions> policies = every_exact_policy();
  const auto queue = std::move(CompletionQueue::create()).value();
  std::map<uint64_t, std::shared_ptr<RequestHandle>> handles;
  uint64_t submitted = 0;
  const auto serve_until = [&](uint64_t total) {
    uint64_t ended = submitted - handles.size();
    while (ended < total) {
      while (submitted < total && handles.size() < 80) {
        std::mt19937 random(static_cast<uint32_t>(submitted));
        Request request;
        append_random_tokens(random, 70, request.prompt_tokens);
        request.max_new_tokens = 6;
        request.ignore_eos = true;
        request.sampling.seed = submitted;
        request.speculation = policies[random() % policies.size()];
        auto handle = engine->submit(request, *queue, submitted);
        ASSERT_TRUE(handle.ok()) << handle.status().message();
        if (random() % 4 == 0) {
          EXPECT_TRUE((*handle)->change_speculation(policies[random() % policies.size()]).ok());
        }
        handles[submitted++] = *handle;
      }
      const auto completion = queue->next();
      ASSERT_TRUE(completion.has_value());
      if (!completion->event.last) continue;
      EXPECT_TRUE(completion->event.error.ok()) << completion->event.error.message();
      handles.erase(completion->tag);
      ++ended;
    }
    EXPECT_TRUE(releases_its_kv(*engine));
  };
  // The least of some moments: what the last requests leave to be cleared away varies.
  const auto least_in_use = [&](uint64_t total) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (uint64_t ended = total - 1000; ended <= total; ended += 200) {
      serve_until(ended);
      least = std::min(least, static_cast<int64_t>(mallinfo2().uordblks));
    }
    return least;
  };
  // Tables and the cache of prefixes have grown to their size by then.
  const int64_t before = least_in_use(3000);
  // A leak of 50 bytes a request would show.
  EXPECT_LT(least_in_use(10000) - before, 350'000);
}

// Slow: the demo pair, whose draft is often right.
using ManyRequestsToTheDemoPair = ManyRequests;

TEST_F(ManyRequestsToTheDemoPair, EqualTheirSoloRuns) {
  const Setting setting{"models/demo-target", "models/demo-draft", 2 * (10 * 4 + 3 * 1) * 64 * 2,
                        24, 30};
  play_waves(setting, alone(setting), {"", ""});
}

}  // namespace
}  // namespace forerun::testing
