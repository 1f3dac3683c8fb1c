// Every policy, parallel_tree above all, on the real executor with a thread for each model, either
// of which may be late or fail at any Step. The decoders are fakes that check every slot and
// ancestor list; what is real is the concurrency.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "exec/exec_rig.h"
#include "strategies/every_policy.h"
#include "strategies/request_driver.h"

namespace forerun {
namespace {

struct Wanted {
  SpeculationOptions options;
  SequenceSpec spec;
  std::vector<TokenId> prompt;
  bool shared_noise = true;
};

struct Outcome {
  std::vector<TokenId> tokens;
  Status status;
  StrategyStats stats;
};

// All requests at once, as the engine's loop does it; a failed one is closed. `cancel_after`: each
// is closed once it has so many tokens; 0: never.
std::vector<Outcome> run_all(Rig& rig, const std::vector<Wanted>& requests,
                             size_t cancel_after = 0) {
  std::vector<Outcome> outcomes(requests.size());
  std::map<SequenceId, RequestDriver> running;
  const auto accept = [&](SequenceId id, const StrategyOutput& out) {
    for (const EmittedToken& token : out.tokens) outcomes[id].tokens.push_back(token.token);
    const size_t length = requests[id].prompt.size() + outcomes[id].tokens.size();
    const bool whole = static_cast<int32_t>(length) >= requests[id].spec.max_tokens;
    return whole || (cancel_after > 0 && outcomes[id].tokens.size() >= cancel_after);
  };
  const auto submit = [&](WorkItem item) {
    item.shared_noise = requests[item.sequence].shared_noise;
    rig.executor->submit(std::move(item));
  };
  const auto close_unless_running = [&](SequenceId id, RequestDriver::State state) {
    if (state == RequestDriver::State::kRunning) return;
    outcomes[id].stats = running.at(id).stats();
    running.erase(id);
    rig.executor->close(id);
  };
  for (SequenceId id = 0; id < requests.size(); ++id) {
    const Wanted& wanted = requests[id];
    EXPECT_TRUE(rig.executor->open(id, wanted.spec).ok());
    RequestDriver& driver = running[id];
    driver.set_strategy(
        resolve_speculation(wanted.options, {.target_vocab = kVocab, .draft_vocab = kVocab})
            .value()
            ->make_strategy({}));
    const RequestDriver::State state = driver.start(
        {.sequence = id,
         .tokens = wanted.prompt,
         .prompt_tokens = wanted.spec.prompt_tokens,
         .max_tokens = wanted.spec.max_tokens,
         .sampling = wanted.spec.sampling},
        [&](StrategyOutput& out) { return accept(id, out); }, submit);
    close_unless_running(id, state);
  }
  while (!running.empty()) {
    auto result = rig.next();
    if (!result) {
      ADD_FAILURE() << running.size() << " requests wait for ever";
      break;
    }
    const SequenceId id = result->sequence;
    const auto found = running.find(id);
    if (found == running.end()) {
      ADD_FAILURE() << "a result of a closed sequence";
      break;
    }
    outcomes[id].status = result->status;
    const RequestDriver::State state = found->second.on_result(
        *result, [&](StrategyOutput& out) { return accept(id, out); }, submit);
    close_unless_running(id, state);
  }
  return outcomes;
}

std::vector<SpeculationOptions> parallel_policies() {
  return policies_of("parallel_tree", every_exact_policy());
}

// Two in three are parallel_tree's, which alone has work for both models at the same time.
SpeculationOptions random_policy(std::mt19937& rng) {
  const std::vector<SpeculationOptions> policies =
      rng() % 3 > 0 ? parallel_policies() : every_exact_policy();
  return policies[rng() % policies.size()];
}

Wanted random_request(std::mt19937& rng, const SpeculationOptions& policy) {
  Wanted wanted;
  wanted.options = policy;
  wanted.options.verify_tokens = 1 + static_cast<int32_t>(rng() % 12);
  wanted.options.draft_width = 1 + static_cast<int32_t>(rng() % 8);
  wanted.options.draft_depth = 1 + static_cast<int32_t>(rng() % 6);
  wanted.options = without_unused(*find_strategy(policy.strategy), wanted.options);
  wanted.spec.sampling.temperature = rng() % 3 == 0 ? 0.0f : 0.9f;
  wanted.spec.sampling.seed = rng();
  if (rng() % 4 == 0) wanted.spec.sampling.repetition_penalty = 1.2f;
  wanted.shared_noise = rng() % 4 != 0;
  for (auto count = 1 + rng() % 40; count > 0; --count) {
    wanted.prompt.push_back(static_cast<TokenId>(rng() % kVocab));
  }
  wanted.spec.prompt_tokens = static_cast<int32_t>(wanted.prompt.size());
  wanted.spec.max_tokens = wanted.spec.prompt_tokens + 1 + static_cast<int32_t>(rng() % 90);
  return wanted;
}

std::vector<Wanted> random_requests(std::mt19937& rng, size_t count) {
  std::vector<Wanted> requests;
  while (requests.size() < count) requests.push_back(random_request(rng, random_policy(rng)));
  return requests;
}

// Makes one side, or none, slow: a Step's results are held back for up to so many microseconds.
std::function<void(const StepRecord&)> random_delays(std::mt19937& rng) {
  std::array<uint32_t, kNumRoles> max_us{};
  for (uint32_t& us : max_us) us = std::array<uint32_t, 4>{0, 30, 100, 400}[rng() % 4];
  return [max_us, seed = rng()](const StepRecord& record) {
    thread_local std::mt19937 delays(static_cast<uint32_t>(seed) +
                                     static_cast<uint32_t>(record.role));
    const uint32_t most = max_us[static_cast<size_t>(record.role)];
    if (most > 0) std::this_thread::sleep_for(std::chrono::microseconds(delays() % most));
  };
}

void expect_clean(Rig& rig) {
  rig.wait_until_kv_is_free();
  rig.executor.reset();
  EXPECT_EQ(rig.target.violations, 0);
  EXPECT_EQ(rig.draft.violations, 0);
}

// Rounds (Steps of the target) that were run.
int64_t play_against_plain(uint32_t seed) {
  std::mt19937 rng(seed);
  const std::vector<Wanted> requests =
      random_requests(rng, std::array<size_t, 3>{1, 2, 4}[rng() % 3]);
  std::vector<Wanted> plain = requests;
  for (Wanted& request : plain) request.options = {.strategy = "autoregressive"};
  Rig inline_rig({.on_step = {}});
  const std::vector<Outcome> expected = run_all(inline_rig, plain);
  Rig rig({.threaded = true,
           .row_budget = rng() % 4 == 0 ? 16 : 512,
           .draft_astray_one_in = 2 + rng() % 8,
           .on_step = random_delays(rng)});
  const std::vector<Outcome> outcomes = run_all(rig, requests);
  int64_t rounds = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE(outcomes[i].status.ok()) << outcomes[i].status.message();
    EXPECT_EQ(outcomes[i].tokens, expected[i].tokens) << policy_name(requests[i].options);
    rounds += outcomes[i].stats.target_steps;
  }
  expect_clean(rig);
  return rounds;
}

void play_rounds(int64_t wanted_rounds, uint32_t first_seed) {
  int64_t rounds = 0;
  for (uint32_t seed = first_seed; rounds < wanted_rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    rounds += play_against_plain(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Concurrent, AFewHundredRandomRoundsUnderRandomDelays) { play_rounds(600, 1); }

TEST(ConcurrentLong, TenThousandRandomRoundsUnderRandomDelays) { play_rounds(10'000, 1000); }

TEST(Concurrent, CancellationLeavesNothingBehind) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 rng(seed);
    const std::vector<Wanted> requests = random_requests(rng, 3);
    Rig rig({.threaded = true, .draft_astray_one_in = 4, .on_step = random_delays(rng)});
    for (const Outcome& outcome : run_all(rig, requests, 1 + rng() % 20)) {
      EXPECT_TRUE(outcome.status.ok());
    }
    expect_clean(rig);
    if (HasFailure()) return;
  }
}

// Either device is lost after some Steps: every request ends, with an error that says where.
TEST(Concurrent, AFailingSideEndsTheRequestsWithAnError) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 rng(seed);
    const Role failing = seed % 2 == 0 ? Role::kTarget : Role::kDraft;
    std::vector<Wanted> requests;
    const std::vector<SpeculationOptions> policies = parallel_policies();
    while (requests.size() < 2) {
      requests.push_back(random_request(rng, policies[rng() % policies.size()]));
    }
    for (Wanted& request : requests) {
      request.spec.max_tokens = 400;
      request.options.verify_tokens = 4;  // so that the target needs the draft
    }
    std::atomic<int32_t> steps_left = static_cast<int32_t>(rng() % 30);
    FakeDecoder* decoder = nullptr;
    Rig rig({.threaded = true, .draft_astray_one_in = 4, .on_step = [&](const StepRecord& record) {
               if (record.role == failing && --steps_left < 0) decoder->fail = true;
             }});
    decoder = &rig.decoder(failing);
    for (const Outcome& outcome : run_all(rig, requests)) {
      EXPECT_EQ(outcome.status.code(), StatusCode::kInternal);
      EXPECT_NE(outcome.status.message().find(role_name(failing)), std::string::npos)
          << outcome.status.message();
    }
    expect_clean(rig);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace forerun
