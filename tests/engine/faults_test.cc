// Target or draft fails, throws or is late at any Step, below a whole engine loop. Every request
// must end, with the same tokens as ever or with an error that names the place, and the loop must
// go on.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>

#include "base/sanitized.h"
#include "engine/loop/engine_loop.h"
#include "exec/exec_rig.h"
#include "strategies/every_policy.h"
#include "support/submit_to_loop.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

enum class Fault : uint8_t { kNone, kFails, kThrows };

class Faults : public ::testing::Test {
 protected:
  // A loop over fake models; the executor's threads are gone before the models.
  struct Loop {
    explicit Loop(const Rig::Options& options) : rig(options) {
      loop = std::make_unique<EngineLoop>(EngineLoop::Options{}, std::move(rig.executor));
    }
    ~Loop() {
      loop.reset();
      EXPECT_EQ(rig.target.violations, 0);
      EXPECT_EQ(rig.draft.violations, 0);
    }
    std::shared_ptr<RequestStream> submit(Request request) {
      return submit_to_loop(*loop, std::move(request), toy_tokenizer(),
                            {.target_vocab = kVocab, .draft_vocab = kVocab});
    }
    void expect_no_kv() {
      for (int tries = 0; tries < 20000 && loop->kv_blocks_in_use() > 0; ++tries) {
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
      EXPECT_EQ(loop->kv_blocks_in_use(), 0);
    }

    Rig rig;
    std::unique_ptr<EngineLoop> loop;
  };

  static Request request_of(uint64_t seed) {
    std::mt19937_64 random(seed);
    Request request;
    // Most begin alike: their KV is shared, which a fault must not spoil.
    if (seed % 4 != 0) {
      for (int32_t token = 0; token < 70; ++token) {
        request.prompt_tokens.push_back(5 * token % kVocab);
      }
    }
    append_random_tokens(random, 1 + random() % 90, request.prompt_tokens, kVocab);
    request.max_new_tokens = static_cast<int32_t>(10 + random() % 60);
    request.ignore_eos = true;
    request.sampling.temperature = random() % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.seed = seed;
    // Half of them with both models at work at the same time.
    const std::vector<SpeculationOptions> all = every_exact_policy();
    const std::vector<SpeculationOptions> policies =
        random() % 2 == 0 ? policies_of("parallel_tree", all) : all;
    request.speculation = policies[random() % policies.size()];
    return request;
  }

  // The outputs of the requests when no fault happens.
  static std::vector<Output> undisturbed(const std::vector<Request>& requests) {
    Loop loop({.on_step = {}});
    std::vector<Output> outputs;
    for (const Request& request : requests) outputs.push_back(drain(*loop.submit(request)));
    return outputs;
  }
};

// One Step of either side, the n-th, goes wrong; before and after it all is well.
TEST_F(Faults, OneStepOfEitherSideGoesWrong) {
  int failed = 0;
  int whole = 0;
  int64_t reused = 0;
  for (uint32_t seed = 0; seed < (kSanitized ? 10 : 40); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const Role role = seed % 2 == 0 ? Role::kTarget : Role::kDraft;
    const Fault fault = seed % 3 == 0 ? Fault::kThrows : Fault::kFails;
    std::vector<Request> requests;
    for (uint64_t idx = 0; idx < 4; ++idx) requests.push_back(request_of(10 * seed + idx));
    const std::vector<Output> expected = undisturbed(requests);
    std::atomic<int32_t> steps_left = static_cast<int32_t>(random() % 40);
    FakeDecoder* decoder = nullptr;
    Loop loop({.threaded = seed % 4 < 2, .on_step = [&](const StepRecord& record) {
                 if (record.role != role) return;
                 const bool now = --steps_left == 0;
                 (fault == Fault::kThrows ? decoder->throws : decoder->fail) = now;
               }});
    decoder = &loop.rig.decoder(role);
    // Requests that begin with the same tokens share KV, which a fault must not corrupt.
    for (int turn = 0; turn < 2; ++turn) {
      std::vector<std::shared_ptr<RequestStream>> streams;
      for (const Request& request : requests) streams.push_back(loop.submit(request));
      for (size_t idx = 0; idx < streams.size(); ++idx) {
        const Output output = drain(*streams[idx]);
        const std::vector<int32_t>& tokens = expected[idx].tokens;
        if (turn > 0) reused += output.stats.reused_tokens;
        if (output.error.ok()) {
          EXPECT_EQ(output.tokens, tokens);
          ++whole;
          continue;
        }
        ++failed;
        EXPECT_EQ(output.error.code(), StatusCode::kInternal);
        const std::string& message = output.error.message();
        EXPECT_NE(message.find(role_name(role)), std::string::npos) << message;
        EXPECT_NE(message.find("the device"), std::string::npos) << message;
        ASSERT_LE(output.tokens.size(), tokens.size());
        EXPECT_TRUE(std::equal(output.tokens.begin(), output.tokens.end(), tokens.begin()));
      }
    }
    loop.expect_no_kv();
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, kSanitized ? 5 : 25);
  EXPECT_GT(whole, failed);
  EXPECT_GT(reused, 0);
}

TEST_F(Faults, ASideThatIsLateChangesNoToken) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    std::vector<Request> requests;
    for (uint64_t idx = 0; idx < 3; ++idx) requests.push_back(request_of(900 + 10 * seed + idx));
    const std::vector<Output> expected = undisturbed(requests);
    const Role late = seed % 2 == 0 ? Role::kTarget : Role::kDraft;
    std::atomic<int32_t> steps = 0;
    Loop loop({.threaded = true, .on_step = [&](const StepRecord& record) {
                 if (record.role != late) return;
                 const int32_t step = ++steps;
                 const int32_t us = step == 5 ? 100'000 : (step * 7919) % 700;
                 std::this_thread::sleep_for(std::chrono::microseconds(us));
               }});
    std::vector<std::shared_ptr<RequestStream>> streams;
    for (const Request& request : requests) streams.push_back(loop.submit(request));
    for (size_t idx = 0; idx < streams.size(); ++idx) {
      const Output output = drain(*streams[idx]);
      EXPECT_TRUE(output.error.ok()) << output.error.message();
      EXPECT_EQ(output.tokens, expected[idx].tokens);
    }
    loop.expect_no_kv();
  }
}

// A Step that does not come back: deadlines and cancellation are heard nevertheless, and when it
// does come back the loop serves on.
TEST_F(Faults, ASideThatHangsHoldsUpNobodysDeadline) {
  for (const Role hung : {Role::kTarget, Role::kDraft}) {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    std::atomic<int32_t> steps = 0;
    Loop loop({.threaded = true, .on_step = [&](const StepRecord& record) {
                 if (record.role != hung || ++steps != 3) return;
                 std::unique_lock lock(mutex);
                 changed.wait(lock, [&] { return open; });
               }});
    Request request = request_of(5);
    request.max_new_tokens = 400;
    request.speculation =
        SpeculationOptions{.strategy = "serial_tree", .source = "model", .shape = "best"};
    request.deadline = std::chrono::milliseconds(200);
    Request patient = request;
    patient.deadline = {};
    const auto late = loop.submit(request);
    const auto cancelled = loop.submit(patient);
    const Output output = drain(*late);
    EXPECT_EQ(output.error.code(), StatusCode::kDeadlineExceeded) << output.error.message();
    cancelled->cancel();
    EXPECT_EQ(drain(*cancelled).reason, FinishReason::kCancelled);
    {
      const std::lock_guard lock(mutex);
      open = true;
    }
    changed.notify_all();
    const Request next = request_of(6);
    EXPECT_EQ(drain(*loop.submit(next)).tokens, undisturbed({next}).front().tokens);
    loop.expect_no_kv();
  }
}

}  // namespace
}  // namespace forerun::testing
