// The engine on an emulated machine, and its traces.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "checkpoint/testing.h"
#include "forerun/engine.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

constexpr const char* kProfiles = R"({
  "forerun_profiles": 1, "source": "a test", "machine": "no machine",
  "models": {
    "target": {"model": "T", "devices": 1, "steps": [{"rows": 8, "ms": 4, "source": "-"}]},
    "draft": {"model": "D", "devices": 1, "steps": [{"rows": 8, "ms": 1, "source": "-"}]},
    "dear": {"model": "E", "devices": 1, "steps": [{"rows": 8, "ms": 5, "source": "-"}]},
    "instant": {"model": "I", "devices": 1, "steps": [{"rows": 8, "ms": 0.00001, "source": "-"}]}},
  "profiles": {
    "serial": {"devices": "shared", "target": "target", "draft": "draft"},
    "side-by-side": {"devices": "separate", "target": "target", "draft": "draft"},
    "dear-draft": {"devices": "shared", "target": "target", "draft": "dear"},
    "too-fast": {"devices": "shared", "target": "instant", "draft": "instant"},
    "stages": {"devices": "separate", "target": "target", "draft": "draft",
               "stages": {"count": 4, "layers": 2, "row_bytes": 100, "gbit_per_s": 10,
                          "latency_ms": 0.1}},
    "alone": {"devices": "shared", "target": "target"}}})";

class EmulationTest : public ::testing::Test {
 protected:
  EmulationTest() : pair_(toy()) {
    EXPECT_TRUE(write_text(dir_.path() / "profiles.json", kProfiles).ok());
  }
  static ToySpec toy() {
    ToySpec spec;
    spec.dtype = DType::kBf16;
    spec.logit_std = 3.0f;
    return spec;
  }
  EngineOptions options(const std::string& profile) const {
    EngineOptions options;
    options.model = pair_.target();
    options.draft = pair_.draft();
    options.devices = "cpu:0";
    if (!profile.empty()) options.emulate = (dir_.path() / "profiles.json").string() + profile;
    return options;
  }
  static Request request() {
    Request request;
    request.prompt_tokens = {11, 22, 33, 44};
    request.max_new_tokens = 24;
    request.ignore_eos = true;
    request.sampling.temperature = 0.8f;
    request.sampling.seed = 5;
    request.speculation = SpeculationOptions{.strategy = "serial_tree", .shape = "best"};
    return request;
  }
  static Output run(const EngineOptions& options) {
    const auto engine = Engine::create(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? complete(**engine, request()) : Output{};
  }

  ToyPair pair_;
  TempDir dir_;
};

TEST_F(EmulationTest, TokensStayWhatTheyAreAndTimeBecomesTheProfiles) {
  const Output real = run(options(""));
  ASSERT_EQ(real.tokens.size(), 24u);
  for (const std::string profile : {"#serial", "#side-by-side"}) {
    const auto engine = Engine::create(options(profile));
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    EXPECT_EQ((*engine)->info().emulated, profile.substr(1) + ": no machine (a test)");
    const Output emulated = complete(**engine, request());
    EXPECT_EQ(emulated.tokens, real.tokens);
    // No less than the profile's: sleeping ends late, never early.
    EXPECT_GE(
        emulated.stats.decode_s,
        0.004 * static_cast<double>(emulated.stats.target_steps) +
            0.001 * static_cast<double>(emulated.stats.draft_steps - emulated.stats.target_steps));
    const EmulationStats stats = (*engine)->emulation();
    EXPECT_GE(stats.steps, emulated.stats.target_steps + emulated.stats.draft_steps);
    EXPECT_LE(stats.late_steps, stats.steps);
  }
}

// A target that is whole here has stages there.
TEST_F(EmulationTest, StagesAreFilledWithOneRequest) {
  const std::vector<int32_t> tokens = run(options("")).tokens;
  const auto engine = Engine::create(options("#stages"));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  EXPECT_NE((*engine)->info().planner_report.find("4 stages, by simulation: "), std::string::npos)
      << (*engine)->info().planner_report;
  for (const char* strategy : {"autoregressive", "serial_tree", "pipelined", "auto"}) {
    SCOPED_TRACE(strategy);
    Request wanted = request();
    wanted.speculation = SpeculationOptions{.strategy = strategy};
    const Output output = complete(**engine, wanted);
    EXPECT_TRUE(output.error.ok()) << output.error.message();
    EXPECT_EQ(output.tokens, tokens);
    // A pass is 4 ms of the stages and four ways of 0.1 ms.
    if (strategy != std::string("autoregressive")) continue;
    EXPECT_GE(output.stats.decode_s, 4.4e-3 * 23);
  }
  EXPECT_GT((*engine)->emulation().steps, 0);
}

TEST_F(EmulationTest, StepsThatCannotKeepUpAreReported) {
  const auto engine = Engine::create(options("#too-fast"));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  complete(**engine, request());
  const EmulationStats stats = (*engine)->emulation();
  EXPECT_GT(stats.steps, 0);
  EXPECT_EQ(stats.late_steps, stats.steps);
  EXPECT_GT(stats.late_seconds, 0.0);
}

TEST_F(EmulationTest, ADraftThatCannotPayLeavesGuessingToTheText) {
  const auto engine = Engine::create(options("#dear-draft"));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  EXPECT_NE((*engine)->info().planner_report.find("from the text so far alone"), std::string::npos)
      << (*engine)->info().planner_report;
  Request plain = request();
  plain.speculation = SpeculationOptions{.strategy = "autoregressive"};
  const std::vector<int32_t> tokens = complete(**engine, plain).tokens;
  const auto with = [&](const SpeculationOptions& speculation) {
    Request wanted = request();
    wanted.speculation = speculation;
    const Output output = complete(**engine, wanted);
    EXPECT_TRUE(output.error.ok()) << output.error.message();
    EXPECT_EQ(output.tokens, tokens);
    return output.stats;
  };
  const RequestStats by_default = with({});
  EXPECT_EQ(by_default.strategy, "serial_tree");
  EXPECT_EQ(by_default.draft_steps, 0);
  // Only the draft model can draft in a given shape, and it does not pay here; asked for by name,
  // it drafts all the same.
  EXPECT_EQ(with({.shape = "chain"}).strategy, "autoregressive");
  EXPECT_GT(with({.source = "model", .shape = "chain"}).draft_steps, 0);
  // An unknown shape is refused as ever.
  Request wrong = request();
  wrong.speculation = SpeculationOptions{.shape = "round"};
  const auto refused = (*engine)->submit(wrong);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("round"), std::string::npos);
}

TEST_F(EmulationTest, ARefusalNamesTheProfile) {
  const auto refusal = [](const EngineOptions& options) {
    const auto engine = Engine::create(options);
    EXPECT_FALSE(engine.ok());
    return engine.status().message();
  };
  EXPECT_NE(refusal(options("#nobody")).find("accepted after #: alone, dear-draft, serial"),
            std::string::npos);
  EXPECT_NE(refusal(options("#alone")).find("no times for a draft"), std::string::npos);
  EngineOptions missing = options("");
  missing.emulate = "/nowhere.json";
  EXPECT_NE(refusal(missing).find("/nowhere.json: no such file"), std::string::npos);
  EngineOptions apart = options("#serial");
  apart.draft_devices = "cpu:1";
  EXPECT_NE(refusal(apart).find("sequentially"), std::string::npos);
  EngineOptions plain = options("#alone");
  plain.draft.clear();
  EXPECT_TRUE(Engine::create(plain).ok());
}

TEST_F(EmulationTest, ATraceHoldsEveryStepAndRound) {
  EngineOptions traced = options("#side-by-side");
  traced.trace = true;
  const auto engine = Engine::create(traced);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const Output output = complete(**engine, request());
  const Trace trace = (*engine)->take_trace();
  const auto drafts = std::count_if(trace.steps.begin(), trace.steps.end(),
                                    [](const TraceStep& step) { return step.draft; });
  // The prefill of each model is a Step too; the draft may have one in flight at the end.
  EXPECT_EQ(static_cast<int64_t>(trace.steps.size()) - drafts, output.stats.target_steps + 1);
  EXPECT_GE(drafts, output.stats.draft_steps);
  int64_t tokens = 0;
  int64_t accepted = 0;
  for (const TraceTurn& turn : trace.turns) {
    tokens += turn.tokens;
    accepted += turn.accepted_nodes;
    EXPECT_LE(turn.start_ns, turn.end_ns);
    EXPECT_GE(turn.cpu_ns, 0);
  }
  EXPECT_GE(tokens, 24);
  EXPECT_EQ(accepted, output.stats.accepted_tokens);
  const auto ended = [&](Reroot reroot) {
    return std::count_if(trace.turns.begin(), trace.turns.end(),
                         [&](const TraceTurn& turn) { return turn.reroot == reroot; });
  };
  EXPECT_GT(ended(Reroot::kHit) + ended(Reroot::kMiss), 0);
  EXPECT_LE(ended(Reroot::kHit) + ended(Reroot::kMiss), output.stats.target_steps);
  for (const TraceStep& step : trace.steps) {
    EXPECT_GE(step.end_ns - step.start_ns, step.draft ? 1'000'000 : 4'000'000);
    EXPECT_LE(step.items.at(0).submit_ns, step.start_ns);
  }
  EXPECT_TRUE((*engine)->take_trace().steps.empty());
  EXPECT_EQ(trace.dropped, 0);

  const auto quiet = Engine::create(options(""));
  ASSERT_TRUE(quiet.ok());
  complete(**quiet, request());
  EXPECT_TRUE((*quiet)->take_trace().turns.empty());
}

}  // namespace
}  // namespace forerun::testing
