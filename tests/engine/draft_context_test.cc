// A draft model that was made for a shorter context than its target: the target keeps its own, the
// draft a window of it, and every strategy that asks the draft gives plain decoding's tokens beyond
// what the draft was made for.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "strategies/every_policy.h"
#include "support/create_engine_rig.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

constexpr int32_t kContext = 512;
constexpr int32_t kDraftContext = 256;

ToySpec short_draft(int32_t context) {
  ToySpec draft = drafted_toy();
  draft.perturbation = 0.1f;
  draft.max_position = context;
  return draft;
}

const ToyPair& short_pair() {
  static const ToyPair pair(drafted_toy(), short_draft(kDraftContext));
  return pair;
}

EngineOptions options_of(const ToyPair& pair) {
  EngineOptions options;
  options.model = pair.target();
  options.draft = pair.draft();
  options.devices = one_processor();
  return options;
}

Request request_of(int32_t prompt_tokens, bool draws) {
  Request request;
  for (int32_t token = 0; token < prompt_tokens; ++token) {
    request.prompt_tokens.push_back(40 + (token * token) % 13);
  }
  request.max_new_tokens = 40;
  request.ignore_eos = true;
  request.sampling.seed = 5;
  request.sampling.temperature = draws ? 0.8f : 0.0f;
  return request;
}

std::string refusal(const EngineOptions& options) {
  const auto engine = Engine::create(options);
  EXPECT_FALSE(engine.ok());
  return engine.status().message();
}

TEST(DraftContext, IsNoLimitOfTheTargets) {
  const auto engine = create_engine(options_of(short_pair()));
  ASSERT_NE(engine, nullptr);
  const EngineInfo& info = engine->info();
  EXPECT_EQ(info.max_context_tokens, kContext);
  EXPECT_EQ(info.draft_window, kDraftContext);
  EXPECT_NE(info.planner_report.find("made for a context of 256 tokens, the target's is 512"),
            std::string::npos)
      << info.planner_report;
  Request request = request_of(kContext + 10, false);
  const auto refused = engine->submit(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("512"), std::string::npos)
      << refused.status().message();
}

TEST(DraftContext, IsSaidAtStart) {
  static std::mutex mutex;
  static std::string said;
  set_log_sink([](LogLevel level, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (level >= LogLevel::kWarning) said += std::string(line) + "\n";
  });
  {
    const auto engine = create_engine(options_of(short_pair()));
    ASSERT_NE(engine, nullptr);
  }
  set_log_sink({});
  const std::lock_guard lock(mutex);
  EXPECT_NE(said.find("window of 256 tokens"), std::string::npos) << said;
}

TEST(DraftContext, EveryStrategyGoesOnBeyondIt) {
  const ToyPair& pair = short_pair();
  EngineOptions without_draft = options_of(pair);
  without_draft.draft.clear();
  const auto alone = create_engine(without_draft);
  ASSERT_NE(alone, nullptr);
  std::vector<EngineOptions> places = {options_of(pair)};
  if (const std::vector<std::string> two = two_processors(); !two.empty()) {
    places.push_back(options_of(pair));
    places.back().devices = two[0];
    places.back().draft_devices = two[1];
  }
  int64_t accepted = 0;
  constexpr size_t kTurns = 8;  // each request takes every eighth policy, each time others
  size_t turn = 0;
  for (const EngineOptions& options : places) {
    const auto engine = create_engine(options);
    ASSERT_NE(engine, nullptr);
    // One prompt ends within the draft's context and its output crosses the end; the other begins
    // far behind it.
    for (const int32_t prompt_tokens : {230, 400}) {
      for (const bool draws : {false, true}) {
        Request request = request_of(prompt_tokens, draws);
        request.speculation = SpeculationOptions{.strategy = "autoregressive"};
        const Output plain = complete(*alone, request);
        ASSERT_TRUE(plain.error.ok()) << plain.error.message();
        const std::vector<SpeculationOptions> policies = every_exact_policy();
        for (size_t at = turn++ % kTurns; at < policies.size(); at += kTurns) {
          const SpeculationOptions& policy = policies[at];
          SCOPED_TRACE(policy_name(policy) + ", prompt of " + std::to_string(prompt_tokens));
          request.speculation = policy;
          const Output output = complete(*engine, request);
          EXPECT_TRUE(output.error.ok()) << output.error.message();
          EXPECT_EQ(output.tokens, plain.tokens);
          if (policy.source == "model") accepted += output.stats.accepted_tokens;
          if (HasFailure()) return;
        }
      }
    }
    EXPECT_TRUE(releases_its_kv(*engine));
  }
  EXPECT_GT(accepted, 50);
}

// Runs as many long requests at once as are allowed, in the memory that was planned for them.
TEST(DraftContext, RequestsFindRoomForTheirWindows) {
  EngineOptions options = options_of(short_pair());
  options.max_active_requests = 6;
  const auto engine = create_engine(options);
  ASSERT_NE(engine, nullptr);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int32_t idx = 0; idx < 6; ++idx) {
    Request request = request_of(380 + idx, idx % 2 == 0);
    request.speculation =
        SpeculationOptions{.strategy = "serial_tree", .source = "model", .shape = "chain"};
    streams.push_back(engine->submit(request).value());
  }
  for (auto& stream : streams) {
    const Output output = drain(*stream);
    EXPECT_TRUE(output.error.ok()) << output.error.message();
    EXPECT_EQ(output.stats.preemptions, 0);
    EXPECT_GT(output.stats.draft_steps, 0);
  }
}

TEST(DraftContext, OfEnoughForWhatIsAskedForChangesNothing) {
  EngineOptions options = options_of(short_pair());
  options.max_context_tokens = kDraftContext;
  const auto engine = create_engine(options);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->info().draft_window, 0);
  EXPECT_EQ(engine->info().max_context_tokens, kDraftContext);
  EXPECT_EQ(engine->info().planner_report.find("made for a context"), std::string::npos);
}

TEST(DraftContext, ASmallerWindowThatWasAskedForStays) {
  for (const int32_t asked : {192, 320}) {
    EngineOptions options = options_of(short_pair());
    options.draft_window = asked;
    const auto engine = create_engine(options);
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->info().draft_window, std::min(asked, kDraftContext));
  }
}

TEST(DraftContext, WithWindowsOfItsOwnTheDraftKeepsThem) {
  ToySpec target = drafted_toy();
  target.family = "mistral";
  ToySpec draft = target;
  draft.perturbation = 0.1f;
  draft.max_position = 256;
  draft.sliding_window = 64;
  const ToyPair pair(target, draft);
  const auto engine = create_engine(options_of(pair));
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->info().max_context_tokens, kContext);
  EXPECT_EQ(engine->info().draft_window, 0);
  Request request = request_of(400, false);
  request.speculation = SpeculationOptions{.strategy = "autoregressive"};
  const Output plain = complete(*engine, request);
  request.speculation =
      SpeculationOptions{.strategy = "serial_tree", .source = "model", .shape = "chain"};
  const Output output = complete(*engine, request);
  EXPECT_TRUE(output.error.ok()) << output.error.message();
  EXPECT_EQ(output.tokens, plain.tokens);
  EXPECT_GT(output.stats.draft_steps, 0);
}

TEST(DraftContext, TooShortForAWindowIsRefusedByName) {
  const ToyPair pair(drafted_toy(), short_draft(128));
  const std::string message = refusal(options_of(pair));
  for (const char* part : {"128", "512", "192", "max_context_tokens", "draft"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
}

}  // namespace
}  // namespace forerun::testing
