// Memory runs out on the loop's thread, at any of its allocations: what was at hand fails, its
// reader is told, others and the process go on.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/sanitized.h"
#include "engine/engine_loop.h"
#include "exec/exec_rig_test.h"
#include "support/submit_to_loop.h"
#include "support/toy_model.h"

namespace {

// Set by the thread whose allocations fail.
thread_local bool fails_here = false;
std::atomic<int64_t> allocations_left{-1};  // until one fails; negative: none does
std::atomic<int64_t> failed{0};

void* allocate(std::size_t size, std::size_t alignment) {
  if (fails_here && allocations_left.load() > 0 && allocations_left.fetch_sub(1) == 1) {
    ++failed;
    throw std::bad_alloc();
  }
  void* const memory =
      std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size == 0 ? 1 : size, 16); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size == 0 ? 1 : size, static_cast<std::size_t>(alignment));
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

}  // namespace
}  // namespace forerun::testing
