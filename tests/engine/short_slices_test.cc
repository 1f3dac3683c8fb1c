// Busy neighbours: what an engine starts to compute with asks the scheduler for short time slices,
// and keeps to its processor.
#include "device/cpu/short_slices.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/cpu/team.h"
#include "forerun/engine.h"
#include "support/on_toy_pair_rig.h"

namespace forerun::testing {
namespace {

std::set<int> threads_of_process() {
  std::set<int> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(std::stoi(entry.path().filename().string()));
  }
  return threads;
}

class ShortSlices : public OnToyPair {
 protected:
  // A sanitizer's own thread comes with a process's first one.
  void SetUp() override {
    OnToyPair::SetUp();
    std::thread([] {}).join();
  }

  // A thread asks as the first thing it does; an answer shows that all of them have begun.
  static void answer_once(Engine& engine) {
    Request request;
    request.prompt_tokens = {1, 2, 3};
    request.max_new_tokens = 4;
    request.ignore_eos = true;
    auto stream = engine.submit(request);
    EXPECT_TRUE(stream.ok()) << stream.status().message();
    while (stream.ok() && (*stream)->next()) {
    }
  }

  // How many threads an engine starts, each with short time slices.
  static size_t threads_of(const EngineOptions& options) {
    const std::set<int> before = threads_of_process();
    const std::unique_ptr<Engine> engine = make(options);
    if (engine == nullptr) return 0;
    answer_once(*engine);
    size_t started = 0;
    for (const int thread : threads_of_process()) {
      if (before.contains(thread)) continue;
      ++started;
      EXPECT_EQ(slice_length(thread), kShortSlice);
    }
    return started;
  }
};

TEST_F(ShortSlices, OfOneGroup) {
  if (slice_length() == std::chrono::nanoseconds(0)) GTEST_SKIP() << "Linux from 6.12 on has them";
  EngineOptions options;
  options.devices = "cpu:0,cpu:0";
  EXPECT_GE(threads_of(options), 2U);  // the loop, and the second device
}

// A member of a team that the scheduler may put beside another one waits for it in turns.
TEST_F(ShortSlices, EveryMemberKeepsToItsProcessor) {
  const std::vector<int32_t> cores = available_cores();
  if (cores.size() < 2) GTEST_SKIP() << "one processor";
  const std::set<int> before = threads_of_process();
  EngineOptions options;
  options.devices = "cpu:" + std::to_string(cores[0]) + "+" + std::to_string(cores[1]);
  const std::unique_ptr<Engine> engine = make(options);
  ASSERT_NE(engine, nullptr);
  answer_once(*engine);
  std::set<int32_t> used;
  for (const int thread : threads_of_process()) {
    if (before.contains(thread)) continue;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    ASSERT_EQ(sched_getaffinity(thread, sizeof(allowed), &allowed), 0);
    EXPECT_EQ(CPU_COUNT(&allowed), 1);
    for (const int32_t core : cores) {
      if (CPU_ISSET(static_cast<size_t>(core), &allowed)) used.insert(core);
    }
  }
  EXPECT_EQ(used, (std::set<int32_t>{cores[0], cores[1]}));
}

TEST_F(ShortSlices, OfConcurrentModelsAndStages) {
  if (slice_length() == std::chrono::nanoseconds(0)) GTEST_SKIP() << "Linux from 6.12 on has them";
  if (available_cores().size() < 2) GTEST_SKIP() << "one processor";
  EngineOptions options;
  options.devices = "cpu:0/cpu:0";
  options.draft_devices = "cpu:1";
  EXPECT_GE(threads_of(options), 5U);  // the loop, a role's thread each, a stage's each
}

}  // namespace
}  // namespace forerun::testing
