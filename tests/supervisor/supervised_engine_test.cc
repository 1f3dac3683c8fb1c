// A supervised engine over a launch that fails on purpose (fault_launch.cc): what comes out is what
// an engine in this process gives, or an error that says why, and nothing of it stays behind.
#include "supervisor/supervised_engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/testing.h"
#include "supervisor/launch_folder.h"
#include "supervisor/launch_process.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

// Steps slow enough for an event a round.
constexpr const char* kProfiles = R"({
  "forerun_profiles": 1, "source": "a test", "machine": "no machine",
  "models": {
    "target": {"model": "T", "devices": 1, "steps": [{"rows": 8, "ms": 4, "source": "-"}]},
    "draft": {"model": "D", "devices": 1, "steps": [{"rows": 8, "ms": 1, "source": "-"}]}},
  "profiles": {"slow": {"devices": "shared", "target": "target", "draft": "draft"}}})";

size_t entries_of(const fs::path& folder, const std::string& prefix = "") {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    count += entry.path().filename().string().starts_with(prefix);
  }
  return count;
}

class Supervised : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    pair_ = new ToyPair(ToySpec{});
    std::thread([] {}).join();  // a sanitizer has a thread of its own from the first one on
  }
  static void TearDownTestSuite() { delete pair_; }

  void SetUp() override {
    std::ofstream(folder_.path() / "profiles.json") << kProfiles;
    descriptors_ = entries_of("/proc/self/fd");
    threads_ = entries_of("/proc/self/task");
  }
  void TearDown() override {
    for (const pid_t process : launches()) EXPECT_NE(kill(process, 0), 0) << "is still there";
    EXPECT_EQ(entries_of("/proc/self/fd"), descriptors_);
    EXPECT_EQ(entries_of("/proc/self/task"), threads_);
    const std::string own = "-" + std::to_string(getpid()) + "-";
    for (const auto& entry : fs::directory_iterator("/tmp")) {
      const std::string name = entry.path().filename().string();
      EXPECT_FALSE(name.starts_with("forerun-") && name.find(own) != name.npos) << name;
    }
  }

  void write_faults(const std::vector<std::string>& faults) {
    std::ofstream file(folder_.path() / "faults");
    for (const std::string& fault : faults) file << fault << '\n';
  }
  void wait_for_launches(size_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (launches().size() < count && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    ASSERT_EQ(launches().size(), count);
  }
  std::vector<pid_t> launches(const std::string& with = "") const {
    std::vector<pid_t> found;
    std::ifstream file(folder_.path() / "launches");
    for (std::string line; std::getline(file, line);) {
      if (line.find(with) != line.npos) found.push_back(std::stoi(line));
    }
    return found;
  }

  static EngineOptions engine_options() {
    EngineOptions options;
    options.model = pair_->target();
    options.draft = pair_->draft();
    options.speculation.strategy = "serial_tree";
    options.max_context_tokens = 256;
    return options;
  }
  SupervisorOptions options() const {
    SupervisorOptions options;
    options.engine = engine_options();
    options.engine.emulate = (folder_.path() / "profiles.json").string() + "#slow";
    options.hosts = {"front", "back"};
    options.command = [folder = folder_.path().string()](const std::string&) {
      return std::vector<std::string>{FORERUN_FAULT_LAUNCH, folder};
    };
    options.longest_silence = milliseconds(1500);
    options.kill_patience = milliseconds(300);
    return options;
  }
  std::unique_ptr<Engine> create() const { return create(options()); }
  static std::unique_ptr<Engine> create(SupervisorOptions options) {
    auto engine = create_supervised_engine(std::move(options));
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? std::move(*engine) : nullptr;
  }

  static Request request(uint64_t seed, int32_t num_samples = 1) {
    Request request;
    request.prompt = "What comes out of it";
    request.max_new_tokens = 48;
    request.ignore_eos = true;
    request.stop = {"never to be seen"};
    request.sampling.temperature = seed == 0 ? 0.0f : 0.9f;
    request.sampling.repetition_penalty = 1.1f;
    request.sampling.seed = seed;
    request.sampling.logprobs = 2;
    request.num_samples = num_samples;
    return request;
  }
  static Output alone(const Request& request) {
    const auto engine = Engine::create(engine_options());
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return complete(**engine, request);
  }
  static void expect_same(const Output& found, const Output& expected) {
    EXPECT_TRUE(found.error.ok()) << found.error.message();
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.text, expected.text);
    EXPECT_EQ(found.reason, expected.reason);
    EXPECT_EQ(found.stats.output_tokens, expected.stats.output_tokens);
    EXPECT_EQ(found.stats.prompt_tokens, expected.stats.prompt_tokens);
    EXPECT_EQ(found.stats.seed, expected.stats.seed);
    ASSERT_EQ(found.logprobs.size(), expected.logprobs.size());
    for (size_t idx = 0; idx < found.logprobs.size(); ++idx) {
      ASSERT_EQ(found.logprobs[idx].size(), expected.logprobs[idx].size());
      for (size_t rank = 0; rank < found.logprobs[idx].size(); ++rank) {
        EXPECT_EQ(found.logprobs[idx][rank].token, expected.logprobs[idx][rank].token);
        EXPECT_EQ(found.logprobs[idx][rank].logprob, expected.logprobs[idx][rank].logprob);
      }
    }
  }

  static ToyPair* pair_;
  TempDir folder_;
  size_t descriptors_ = 0;
  size_t threads_ = 0;
};
ToyPair* Supervised::pair_ = nullptr;

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

// However a launch ends, the next one goes on behind what has been read.
TEST_F(Supervised, GoesOnWhereALaunchIsLost) {
  const std::vector<std::string> kinds = {"die", "stop", "leave", "garble", "fail", "error"};
  for (const std::string& kind : kinds) {
    SCOPED_TRACE(kind);
    fs::remove(folder_.path() / "launches");
    write_faults({kind + " 4 rank 1 (stage 1 of 1, host back): gone", kind + " 2 rank 1: again"});
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
  write_faults(std::vector<std::string>(9, "fail 0 rank 1 (stage 1 of 1, host back): burns"));
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
}

TEST_F(Supervised, TheDraftsFailureLeavesItOut) {
  write_faults({"fail 3 draft: cuda:0 is gone"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  expect_same(complete(*engine, request(7)), alone(request(7)));
  EXPECT_EQ(launches(" draft").size(), 1u);
  EXPECT_EQ(launches(" plain").size(), 1u);
  const Output later = complete(*engine, request(8));
  EXPECT_EQ(later.stats.strategy, "autoregressive");
  expect_same(later, alone(request(8)));
  Request drafting = request(9);
  drafting.speculation = SpeculationOptions{.strategy = "serial_tree", .source = "model"};
  expect_same(complete(*engine, drafting), alone(request(9)));
}

TEST_F(Supervised, ACoordinatorThatFailsInVainTriesWithoutTheDraft) {
  write_faults({"die 1", "refuse 0 no room", "refuse 0 no room"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  expect_same(complete(*engine, request(7)), alone(request(7)));
  EXPECT_EQ(launches(" draft").size(), 3u);
  EXPECT_EQ(launches(" plain").size(), 1u);
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
  write_faults({"die 20", "stop 30", "die 40", "fail 10 rank 1: cut"});
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
