// A supervised engine over a launch that fails on purpose (fault_launch.cc): its output equals that
// of an engine in this process, or is an error that says why, and nothing stays behind.
#include "supervisor/supervised_engine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/supervised_rig.h"

namespace forerun::testing {
namespace {

TEST_F(Supervised, GivesWhatAnEngineHereGives) {
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->info().max_context_tokens, 256);
  for (const uint64_t seed : {0, 7}) {
    expect_same(complete(*engine, request(seed)), alone(request(seed)));
  }
  EXPECT_EQ(launches().size(), 1u);
  EXPECT_EQ(engine->detokenize(*engine->tokenize("as it is", false)), "as it is");
}

TEST_F(Supervised, RefusesWhatAnEngineRefuses) {
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  Request bad = request(0);
  bad.sampling.top_p = 7.0f;
  EXPECT_NE(engine->submit(bad).status().message().find("top_p"), std::string::npos);
  bad = request(0);
  bad.speculation = SpeculationOptions{.strategy = "none such"};
  EXPECT_NE(engine->submit(bad).status().message().find("none such"), std::string::npos);
  const auto stream = engine->submit(request(0));
  ASSERT_TRUE(stream.ok());
  EXPECT_FALSE((*stream)->change_speculation({.strategy = "none such"}).ok());
  EXPECT_TRUE((*stream)->change_speculation({.strategy = "autoregressive"}).ok());
  expect_same(drain(**stream), alone(request(0)));
}

// However a launch ends, the next one continues after the tokens that have been read.
TEST_F(Supervised, GoesOnWhereALaunchIsLost) {
  const std::vector<std::string> kinds = {"die", "stop", "leave", "garble", "fail", "error"};
  for (const std::string& kind : kinds) {
    SCOPED_TRACE(kind);
    fs::remove(folder_.path() / "launches");
    const std::string rank = kind == "fail" ? " 1 " : " ";
    write_faults({kind + " 4" + rank + "rank 1 (stage 1 of 1, host back): gone",
                  kind + " 2" + rank + "rank 1: again"});
    const auto engine = create();
    ASSERT_NE(engine, nullptr);
    const Output output = complete(*engine, request(7));
    if (kind == "error") {  // the second time it is the request's own
      EXPECT_EQ(output.reason, FinishReason::kError);
      EXPECT_NE(output.error.message().find("again"), std::string::npos);
      EXPECT_EQ(launches().size(), 2u);
      continue;
    }
    expect_same(output, alone(request(7)));
    EXPECT_GT(output.stats.resumed_tokens, 0);
    EXPECT_EQ(launches().size(), 3u);
  }
}

TEST_F(Supervised, SamplesGoOnEachByItself) {
  write_faults({"die 9", "die 5"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  const auto queue = std::move(*CompletionQueue::create());
  const auto handle = engine->submit(request(7, 3), *queue, 1);
  ASSERT_TRUE(handle.ok());
  std::vector<Output> samples(3);
  int lasts = 0;
  while (auto completion = queue->next()) {
    Event& event = completion->event;
    Output& sample = samples.at(static_cast<size_t>(event.sample_idx));
    sample.tokens.insert(sample.tokens.end(), event.tokens.begin(), event.tokens.end());
    sample.text += event.text;
    sample.logprobs.insert(sample.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
    sample.prompt_logprobs.insert(sample.prompt_logprobs.end(), event.prompt_logprobs.begin(),
                                  event.prompt_logprobs.end());
    if (event.finished) {
      sample.reason = event.reason;
      sample.error = event.error;
      sample.stats = event.stats;
    }
    lasts += event.last;
  }
  EXPECT_EQ(lasts, 1);
  for (int32_t idx = 0; idx < 3; ++idx) {
    Request single = request(sample_seed(7, idx));
    expect_same(samples[static_cast<size_t>(idx)], alone(single));
  }
  EXPECT_EQ(launches().size(), 3u);
}

TEST_F(Supervised, GivesUpOnAHostThatFailsAgainAndAgain) {
  write_faults(std::vector<std::string>(9, "fail 0 1 rank 1 (stage 1 of 1, host back): burns"));
  SupervisorOptions with = options();
  with.relaunches = 2;
  const auto engine = create(with);
  ASSERT_NE(engine, nullptr);
  const Output output = complete(*engine, request(7));
  EXPECT_EQ(output.reason, FinishReason::kError);
  EXPECT_NE(output.error.message().find("host back has failed 3 times"), std::string::npos)
      << output.error.message();
  EXPECT_NE(output.error.message().find("burns"), std::string::npos);
  EXPECT_EQ(launches().size(), 3u);
  const auto later = engine->submit(request(7));
  EXPECT_EQ(later.status().message(), output.error.message());
  EXPECT_EQ(later.status().code(), StatusCode::kCancelled);  // 503 over HTTP
  EXPECT_EQ(engine->load().condition, EngineCondition::kGivenUp);
  EXPECT_EQ(engine->load().condition_reason, output.error.message());
}

// The requests that the launch takes down with it continue; the draft is not blamed.
TEST_F(Supervised, ARequestThatProcessesDieOfIsFailedAlone) {
  write_faults({"always poison 99"});
  SupervisorOptions with = options();
  with.doubts_requests = true;
  const auto engine = create(with);
  ASSERT_NE(engine, nullptr);
  constexpr uint64_t kRequests = 12;
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (uint64_t idx = 0; idx < kRequests; ++idx) {
    auto stream = engine->submit(request(idx == 5 ? 99 : idx));
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    streams.push_back(std::move(*stream));
  }
  for (uint64_t idx = 0; idx < kRequests; ++idx) {
    SCOPED_TRACE(idx);
    const Output output = drain(*streams[idx]);
    if (idx != 5) {
      expect_same(output, alone(request(idx)));
      continue;
    }
    EXPECT_EQ(output.reason, FinishReason::kError);
    EXPECT_NE(output.error.message().find("3 processes in a row have died with this request"),
              std::string::npos)
        << output.error.message();
  }
  EXPECT_EQ(launches().size(), 4u);
  expect_same(complete(*engine, request(1)), alone(request(1)));
}

TEST_F(Supervised, WhatIsRefusedIsNotStartedAgain) {
  write_faults({"refuse 0 weights: found none"});
  const auto engine = create_supervised_engine(options());
  EXPECT_EQ(engine.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(engine.status().message(), "weights: found none");
  EXPECT_EQ(launches().size(), 1u);
}

TEST_F(Supervised, AProgramThatIsNotThereIsNamed) {
  SupervisorOptions without = options();
  without.command = [](const std::string&) { return std::vector<std::string>{"no-such-mpirun"}; };
  const auto engine = create_supervised_engine(without);
  EXPECT_EQ(engine.status().code(), StatusCode::kNotFound);
  EXPECT_NE(engine.status().message().find("no-such-mpirun"), std::string::npos);
}

TEST_F(Supervised, WhatMpirunPrintsIsNoMessageOfTheCoordinators) {
  SupervisorOptions failing = options();
  failing.command = [](const std::string&) {
    return std::vector<std::string>{"sh", "-c", "echo 2 total processes failed to start; exit 1"};
  };
  const auto engine = create_supervised_engine(failing);
  EXPECT_EQ(engine.status().message(),
            "the launch has ended with exit code 1: 2 total processes failed to start");
}

TEST_F(Supervised, StartingCanBeCalledOff) {
  write_faults({"linger 0"});
  SupervisorOptions called_off = options();
  called_off.is_cancelled = [this] { return !launches().empty(); };
  const auto engine = create_supervised_engine(called_off);
  EXPECT_EQ(engine.status().code(), StatusCode::kCancelled);
}

TEST_F(Supervised, EndsWhileALaunchStarts) {
  write_faults({"die 2", "linger 0"});
  auto engine = create();
  ASSERT_NE(engine, nullptr);
  const auto stream = engine->submit(request(7));
  ASSERT_TRUE(stream.ok());
  wait_for_launches(2);
  const auto waiting = engine->submit(request(8));  // for the launch that never comes
  ASSERT_TRUE(waiting.ok()) << waiting.status().message();
  engine.reset();
  EXPECT_EQ(drain(**stream).reason, FinishReason::kCancelled);
  EXPECT_EQ(drain(**waiting).reason, FinishReason::kCancelled);
}

TEST_F(Supervised, CancelsAndIsLateWithoutALaunch) {
  write_faults({"die 2", "linger 0"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  const auto first = engine->submit(request(7));
  ASSERT_TRUE(first.ok());
  wait_for_launches(2);
  Request hurried = request(8);
  hurried.deadline = milliseconds(50);
  const Output late = complete(*engine, hurried);
  EXPECT_EQ(late.error.code(), StatusCode::kDeadlineExceeded);
  (*first)->cancel();
  EXPECT_EQ(drain(**first).reason, FinishReason::kCancelled);
  EXPECT_EQ((*first)->change_speculation({}).code(), StatusCode::kOk);
  EXPECT_EQ(engine->load().running_requests, 0);
}

TEST_F(Supervised, CancelsWhatRuns) {
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  Request endless = request(7);
  endless.max_new_tokens = 200;
  const auto stream = engine->submit(endless);
  ASSERT_TRUE(stream.ok());
  (*stream)->cancel();
  const Output output = drain(**stream);
  EXPECT_TRUE(output.reason == FinishReason::kCancelled || output.tokens.size() == 200);
  expect_same(complete(*engine, request(9)), alone(request(9)));
}

TEST_F(Supervised, ManyRequestsGoOnTogether) {
  write_faults({"die 20", "stop 30", "die 40", "fail 10 1 rank 1: cut"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    auto stream = engine->submit(request(seed));
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    streams.push_back(std::move(*stream));
  }
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    expect_same(drain(*streams[seed]), alone(request(seed)));
  }
  EXPECT_EQ(launches().size(), 5u);
}

}  // namespace
}  // namespace forerun::testing
