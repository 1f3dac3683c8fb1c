// Memory runs out on the loop's thread, at any of its allocations: what was at hand fails, its
// reader is told, others and the process go on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/sanitized.h"
#include "engine/loop/engine_loop.h"
#include "engine/loop/scheduled_request_rig.h"
#include "exec/exec_rig.h"
#include "support/submit_to_loop.h"
#include "support/toy_model.h"

namespace {

// Set by the thread whose allocations fail, or named by its number.
thread_local bool fails_here = false;
thread_local bool has_no_memory = false;  // all of this thread's allocations fail
std::atomic<pid_t> failing_thread{0};
std::atomic<int64_t> allocations_left{-1};  // until one fails; negative: none does
std::atomic<int64_t> failed{0};

bool is_failing_thread() {
  if (fails_here) return true;
  const pid_t failing = failing_thread.load();
  if (failing == 0) return false;
  thread_local const pid_t own = gettid();
  return own == failing;
}

// Allocates; null where the allocation is made to fail.
void* try_allocate(std::size_t size, std::size_t alignment) noexcept {
  if (has_no_memory) return nullptr;
  if (allocations_left.load() > 0 && is_failing_thread() && allocations_left.load() > 0 &&
      allocations_left.fetch_sub(1) == 1) {
    ++failed;
    return nullptr;
  }
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate(std::size_t size, std::size_t alignment) {
  void* const memory = try_allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size == 0 ? 1 : size, 16); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size == 0 ? 1 : size, static_cast<std::size_t>(alignment));
}
// std::stable_sort allocates its buffer this way, and can do without one.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return try_allocate(size == 0 ? 1 : size, 16);
}
// Inlined, they would look like a mismatch to the compiler.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace forerun::testing {
namespace {

// Only the loop's thread calls an executor.
class MarksItsCaller : public Executor {
 public:
  explicit MarksItsCaller(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}
  Status open(SequenceId sequence, const SequenceSpec& spec) override {
    fails_here = true;
    return executor_->open(sequence, spec);
  }
  void submit(WorkItem item) override { executor_->submit(std::move(item)); }
  std::optional<WorkResult> next(std::chrono::microseconds timeout) override {
    return executor_->next(timeout);
  }
  std::optional<WorkResult> next_at_hand() override { return executor_->next_at_hand(); }
  void set_meanwhile(Meanwhile meanwhile) override {
    executor_->set_meanwhile(std::move(meanwhile));
  }
  void close(SequenceId sequence) override { executor_->close(sequence); }
  KvUsage kv_usage(Role role) const override { return executor_->kv_usage(role); }

 private:
  std::unique_ptr<Executor> executor_;
};

class OutOfMemory : public ::testing::Test {
 protected:
  struct Loop {
    explicit Loop(bool threaded) : rig({.threaded = threaded}) {
      loop =
          std::make_unique<EngineLoop>(EngineLoop::Options{.load = &load},
                                       std::make_unique<MarksItsCaller>(std::move(rig.executor)));
    }
    std::shared_ptr<RequestStream> submit(Request request) {
      return submit_to_loop(*loop, std::move(request), toy_tokenizer(),
                            {.target_vocab = kVocab, .draft_vocab = kVocab});
    }
    Output complete(Request request) { return drain(*submit(std::move(request))); }

    LoadMeter load{-1};
    Rig rig;
    std::unique_ptr<EngineLoop> loop;
  };

  static Request request_of(int32_t first_token) {
    Request request;
    for (int32_t idx = 0; idx < 70; ++idx) {
      request.prompt_tokens.push_back((first_token + 3 * idx) % kVocab);
    }
    request.max_new_tokens = 25;
    request.ignore_eos = true;
    request.stop = {"\x01\x02\x03"};
    request.speculation = SpeculationOptions{
        .strategy = "serial_tree", .source = "model", .shape = "best", .verify_tokens = 6};
    return request;
  }

  static void fail_each_allocation(bool threaded);
};

// One allocation fails while three requests run, each time a later one.
void OutOfMemory::fail_each_allocation(bool threaded) {
  allocations_left = -1;
  Loop loop(threaded);
  std::vector<std::vector<int32_t>> expected;
  for (int32_t first = 0; first < 3; ++first) {
    expected.push_back(loop.complete(request_of(first)).tokens);
    ASSERT_EQ(expected.back().size(), 25u);
  }
  int64_t lost = 0;
  int64_t whole = 0;
  for (int64_t allocation = 1;; allocation += kSanitized ? 197 : 29) {
    const int64_t failed_before = failed;
    allocations_left = allocation;
    std::vector<std::shared_ptr<RequestStream>> streams;
    for (int32_t first = 0; first < 3; ++first) {
      streams.push_back(loop.submit(request_of(first)));
    }
    for (size_t idx = 0; idx < streams.size(); ++idx) {
      const Output output = drain(*streams[idx]);
      if (output.error.ok()) {
        EXPECT_EQ(output.tokens, expected[idx]);
        ++whole;
        continue;
      }
      // A Step that has no memory says so itself.
      EXPECT_TRUE(output.error.code() == StatusCode::kResourceExhausted ||
                  output.error.message().find("memory") != std::string::npos)
          << output.error.message();
      ASSERT_LE(output.tokens.size(), expected[idx].size());
      EXPECT_TRUE(std::equal(output.tokens.begin(), output.tokens.end(), expected[idx].begin()));
      ++lost;
    }
    allocations_left = -1;
    EXPECT_EQ(loop.complete(request_of(1)).tokens, expected[1]) << allocation;
    if (HasFatalFailure() || failed == failed_before) break;  // there are no more allocations
  }
  for (int tries = 0; tries < 20000 && loop.loop->kv_blocks_in_use() > 0; ++tries) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  EXPECT_EQ(loop.loop->kv_blocks_in_use(), 0);
  EXPECT_EQ(loop.load.load().running_requests, 0);
  EXPECT_GT(lost, kSanitized ? 2 : 5);  // fewer allocations are tried there
  EXPECT_GT(whole, 5);
}

TEST_F(OutOfMemory, OneModelAfterTheOther) { fail_each_allocation(false); }
TEST_F(OutOfMemory, Concurrent) { fail_each_allocation(true); }

// For no sequence is there memory: neither for what the loop does meanwhile nor for the result.
class HasNoMemory : public IdleExecutor {
 public:
  struct Seen {
    std::atomic<bool> all_submitted{false};
    std::atomic<int> meanwhiles{0}, thrown{0};
  };
  explicit HasNoMemory(Seen* seen) : seen_(seen) {}

  Status open(SequenceId sequence, const SequenceSpec&) override {
    seen_->all_submitted.wait(false);
    open_ = sequence;
    return {};
  }
  std::optional<WorkResult> next(std::chrono::microseconds) override {
    if (failed_ == open_) return std::nullopt;
    failed_ = open_;
    has_no_memory = true;
    ++seen_->meanwhiles;
    try {
      meanwhile_();
    } catch (const std::bad_alloc&) {
      ++seen_->thrown;
    }
    has_no_memory = false;
    throw std::bad_alloc();
  }
  void set_meanwhile(Meanwhile meanwhile) override { meanwhile_ = std::move(meanwhile); }

 private:
  Seen* const seen_;
  Meanwhile meanwhile_;
  SequenceId open_ = 0, failed_ = 0;
};

// A request begins in the turn after memory ran out for the one before: for what the load meter was
// to be told of it, then for its result.
TEST(OutOfMemoryLoop, EventsThatFoundNoMemoryTakeNoPlaceFromLaterOnes) {
  HasNoMemory::Seen seen;
  LoadMeter load(-1);
  EngineLoop loop({.max_active = 1, .load = &load}, std::make_unique<HasNoMemory>(&seen));
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int32_t token = 0; token < 3; ++token) {
    Request request;
    request.prompt_tokens = {token};
    request.max_new_tokens = 20;
    streams.push_back(submit_to_loop(loop, std::move(request), toy_tokenizer()));
  }
  seen.all_submitted = true;
  seen.all_submitted.notify_all();
  for (const auto& stream : streams) {
    const Output output = drain(*stream);
    EXPECT_EQ(output.error.code(), StatusCode::kResourceExhausted) << output.error.message();
  }
  EXPECT_EQ(seen.meanwhiles, 3);
  EXPECT_EQ(seen.thrown, 0);
}

// The thread that was started last.
pid_t newest_thread() {
  pid_t newest = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    newest = std::max(newest, static_cast<pid_t>(std::stoi(task.path().filename())));
  }
  return newest;
}

// Requests that take the loop through its parts: strategies, samples, scores, stop strings, and
// more of them than run at a time.
std::vector<Request> requests_of_every_kind() {
  std::vector<Request> requests(6);
  for (size_t idx = 0; idx < requests.size(); ++idx) {
    Request& request = requests[idx];
    for (int32_t place = 0; place < 40; ++place) {
      request.prompt_tokens.push_back((7 * static_cast<int32_t>(idx) + 3 * place) % 256);
    }
    request.max_new_tokens = 20;
    request.ignore_eos = true;
    request.sampling.temperature = 0.8f;
    request.sampling.seed = idx;
  }
  requests[0].speculation = SpeculationOptions{.strategy = "autoregressive"};
  requests[1].speculation = SpeculationOptions{.strategy = "serial_tree", .source = "suffix"};
  requests[2].num_samples = 2;
  requests[3].sampling.logprobs = 3;
  requests[3].sampling.prompt_logprobs = 2;
  requests[4].stop = {"\x01\x02\x03", "never"};
  requests[5].priority = 1;
  return requests;
}

struct Answer {
  std::vector<std::vector<int32_t>> tokens;  // tokens of each sample
  Status error;
};

Answer read_answer(RequestStream& stream, int32_t samples) {
  Answer answer{std::vector<std::vector<int32_t>>(static_cast<size_t>(samples)), {}};
  while (const auto event = stream.next()) {
    auto& tokens = answer.tokens[static_cast<size_t>(event->sample_idx)];
    tokens.insert(tokens.end(), event->tokens.begin(), event->tokens.end());
    if (event->finished && event->reason == FinishReason::kError) answer.error = event->error;
  }
  return answer;
}

std::vector<Answer> answers_to(Engine& engine, const std::vector<Request>& requests) {
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (const Request& request : requests) {
    auto stream = engine.submit(request);
    EXPECT_TRUE(stream.ok()) << stream.status().message();
    streams.push_back(std::move(stream).value());
  }
  std::vector<Answer> answers;
  for (size_t idx = 0; idx < requests.size(); ++idx) {
    answers.push_back(read_answer(*streams[idx], requests[idx].num_samples));
  }
  return answers;
}

TEST(OutOfMemoryEngine, RequestsOfEveryKind) {
  allocations_left = -1;
  const ToyPair toys(drafted_toy());
  EngineOptions options;
  options.model = toys.target();
  options.draft = toys.draft();
  options.devices = one_processor();
  options.max_active_requests = 3;
  auto engine = Engine::create(options);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  failing_thread = newest_thread();  // the loop's is made last
  const std::vector<Request> requests = requests_of_every_kind();
  const std::vector<Answer> expected = answers_to(**engine, requests);
  int64_t lost = 0, whole = 0;
  for (int64_t allocation = 1;; allocation += kSanitized ? 197 : 97) {
    const int64_t failed_before = failed;
    allocations_left = allocation;
    const std::vector<Answer> answers = answers_to(**engine, requests);
    allocations_left = -1;
    for (size_t idx = 0; idx < requests.size(); ++idx) {
      const Answer& answer = answers[idx];
      if (answer.error.ok()) {
        EXPECT_EQ(answer.tokens, expected[idx].tokens) << idx;
        ++whole;
        continue;
      }
      EXPECT_NE(answer.error.message().find("memory"), std::string::npos) << answer.error.message();
      for (size_t sample = 0; sample < answer.tokens.size(); ++sample) {
        const auto& tokens = answer.tokens[sample];
        const auto& right = expected[idx].tokens[sample];
        ASSERT_LE(tokens.size(), right.size());
        EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), right.begin())) << idx;
      }
      ++lost;
    }
    // The engine goes on as if nothing had happened.
    EXPECT_EQ(answers_to(**engine, {requests[1]})[0].tokens, expected[1].tokens) << allocation;
    if (::testing::Test::HasFailure() || failed == failed_before) break;  // that was the last
  }
  failing_thread = 0;
  EXPECT_TRUE(releases_its_kv(**engine));
  EXPECT_GT(lost, 2);
  EXPECT_GT(whole, lost);
}

}  // namespace
}  // namespace forerun::testing
