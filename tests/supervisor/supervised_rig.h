// Shared by the tests of supervised engines: a launch that fails on demand (fault_launch.cc), the
// output of an engine in this process, and the check that nothing stays behind.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "checkpoint/testing.h"
#include "supervisor/supervised_engine.h"
#include "support/toy_model.h"

namespace forerun::testing {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

// Steps slow enough for an event a round.
inline constexpr const char* kProfiles = R"({
  "forerun_profiles": 1, "source": "a test", "machine": "no machine",
  "models": {
    "target": {"model": "T", "devices": 1, "steps": [{"rows": 8, "ms": 4, "source": "-"}]},
    "draft": {"model": "D", "devices": 1, "steps": [{"rows": 8, "ms": 1, "source": "-"}]}},
  "profiles": {"slow": {"devices": "shared", "target": "target", "draft": "draft"}}})";

inline size_t entries_of(const fs::path& folder, const std::string& prefix = "") {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    count += entry.path().filename().string().starts_with(prefix);
  }
  return count;
}

// Returns whether the process is gone or waits to be reaped: who reaps a launch's processes may be
// the machine's first process, which takes its time.
inline bool is_over(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(") ");  // the state follows the program's name
  return name_end == stat.npos || stat[name_end + 2] == 'Z' || stat[name_end + 2] == 'X';
}

// Returns whether the process ends within two seconds.
inline bool has_ended(pid_t process) {
  for (int32_t attempt = 0; attempt < 200; ++attempt) {
    if (is_over(process)) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
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
    for (const pid_t process : launches()) EXPECT_TRUE(has_ended(process)) << "is still there";
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
    options.longest_silence = milliseconds(kSanitized ? 5000 : 3000);
    options.kill_timeout = milliseconds(300);
    options.times.first_pause = milliseconds(20);
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
    request.sampling.prompt_logprobs = 1;
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
    expect_same(found.logprobs, expected.logprobs);
    expect_same(found.prompt_logprobs, expected.prompt_logprobs);
  }
  using Logprobs = std::vector<std::vector<TokenLogprob>>;
  static void expect_same(const Logprobs& found, const Logprobs& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t idx = 0; idx < found.size(); ++idx) {
      ASSERT_EQ(found[idx].size(), expected[idx].size());
      for (size_t rank = 0; rank < found[idx].size(); ++rank) {
        EXPECT_EQ(found[idx][rank].token, expected[idx][rank].token);
        EXPECT_EQ(found[idx][rank].logprob, expected[idx][rank].logprob);
      }
    }
  }

  inline static ToyPair* pair_ = nullptr;
  TempDir folder_;
  size_t descriptors_ = 0;
  size_t threads_ = 0;
};

}  // namespace forerun::testing
