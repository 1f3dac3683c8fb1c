// The promise under load: requests of every policy that arrive at random moments, of several
// priorities, on KV memory that runs short, so that some are set aside and start over, while others
// are cancelled and all of them change their options as they run. Each gives the tokens that plain
// decoding gives it alone; what was cancelled gives their beginning.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lossless/lossless_cases.h"

namespace forerun::testing {
namespace {

constexpr uint64_t kRequests = 40;
constexpr int32_t kMaxActiveRequests = 16;
constexpr const char* kLeftOut = "not in the part that FORERUN_TEST_PART asks for";

// Its context of 256 tokens is at times nearly filled.
Request long_request(uint64_t seed) {
  Request request = request_of(seed, seed % 4 != 0);
  request.max_new_tokens = static_cast<int32_t>(150 + 31 * seed % 75);
  request.speculation = SpeculationOptions{.strategy = "autoregressive"};
  return request;
}

// The policies that accept a request of this precision; any() draws one of them.
class Policies {
 public:
  Policies(const Precision& precision, const Request& request, const std::string& strategy) {
    for (Request& each : by_every_policy(request, precision, strategy)) {
      policies_.push_back(std::move(*each.speculation));
    }
  }
  const SpeculationOptions& any(std::mt19937& random) const {
    return policies_[random() % policies_.size()];
  }

 private:
  std::vector<SpeculationOptions> policies_;
};

void sleep_up_to(std::mt19937& random, uint32_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % microseconds));
}

bool is_cancelled(uint64_t seed) { return seed % 7 == 3; }

class LosslessUnderLoad : public ::testing::TestWithParam<size_t> {
 protected:
  // `strategy`: by which all requests run; empty: any.
  void run_load(const std::string& devices, const std::string& draft_devices,
                const std::string& strategy = "");
  // Whether a placement of this number runs with this precision.
  bool is_left_out(size_t placement) const { return !runs(GetParam() + placement); }

 private:
  struct Seen {
    int32_t changes = 0, preemptions = 0, cancelled = 0;
    int64_t accepted = 0;
  };
  // All requests, once.
  void play_wave(Engine& engine, uint32_t wave);

  std::vector<Output> plain_;       // plain outputs of each seed
  std::vector<Policies> policies_;  // policies of each seed
  Seen seen_;
};

void LosslessUnderLoad::play_wave(Engine& engine, uint32_t wave) {
  std::vector<std::shared_ptr<RequestStream>> streams;
  streams.reserve(kRequests);
  std::atomic<size_t> arrived{0};
  std::atomic<bool> done{false};
  std::thread meddler([&] {
    std::mt19937 moments(wave + 100);
    while (!done) {
      sleep_up_to(moments, 400);
      if (arrived == 0) continue;
      const size_t seed = moments() % arrived;
      if (is_cancelled(seed) && moments() % 8 == 0) streams[seed]->cancel();
      const Status changed = streams[seed]->change_speculation(policies_[seed].any(moments));
      EXPECT_TRUE(changed.ok()) << changed.message();
    }
  });
  std::mt19937 random(wave);
  for (uint64_t seed = 0; seed < kRequests; ++seed) {
    Request request = long_request(seed);
    request.speculation = policies_[seed].any(random);
    request.priority = static_cast<int32_t>(random() % 3) - 1;
    if (random() % 4 == 0) sleep_up_to(random, 3000);
    auto stream = engine.submit(request);
    EXPECT_TRUE(stream.ok()) << stream.status().message();
    if (!stream.ok()) break;
    streams.push_back(*stream);
    ++arrived;
  }
  for (uint64_t seed = 0; seed < streams.size(); ++seed) {
    const Output output = drain(*streams[seed]);
    seen_.changes += output.stats.strategy_changes;
    seen_.preemptions += output.stats.preemptions;
    seen_.accepted += output.stats.accepted_tokens;
    const Output& plain = plain_[seed];
    if (output.reason != FinishReason::kCancelled) {
      expect_same(plain, output, "seed " + std::to_string(seed));
      continue;
    }
    ++seen_.cancelled;
    EXPECT_TRUE(is_cancelled(seed)) << seed;
    EXPECT_TRUE(output.tokens.size() <= plain.tokens.size() &&
                std::equal(output.tokens.begin(), output.tokens.end(), plain.tokens.begin()))
        << seed;
  }
  done = true;
  meddler.join();
  EXPECT_EQ(streams.size(), kRequests);
  EXPECT_TRUE(releases_its_kv(engine));
}

void LosslessUnderLoad::run_load(const std::string& devices, const std::string& draft_devices,
                                 const std::string& strategy) {
  const Precision precision = precisions()[GetParam()];
  const bool is_int4 = precision.spec.quantization == ToySpec::Quantization::kAwq;
  const ToyPair pair(precision.spec, is_int4 ? 0.04f : 0.15f);
  EngineOptions options;
  options.max_active_requests = kMaxActiveRequests;
  const auto roomy = make_engine(pair.target(), pair.draft(), precision, devices, "", options);
  ASSERT_NE(roomy, nullptr);
  for (uint64_t seed = 0; seed < kRequests; ++seed) {
    const Request request = long_request(seed);
    plain_.push_back(complete(*roomy, request));
    ASSERT_TRUE(plain_.back().error.ok()) << plain_.back().error.message();
    // Greedy ones take rule `rejection` too.
    policies_.emplace_back(precision, request, strategy);
  }
  // A reservation foresees a block for each to grow by; they grow by three.
  options.kv_memory_bytes = roomy->info().kv_bytes / kMaxActiveRequests * 2;
  const auto engine =
      make_engine(pair.target(), pair.draft(), precision, devices, draft_devices, options);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->info().numeric_fingerprint, roomy->info().numeric_fingerprint);
  // Which requests run together depends on timing, so this repeats until every case has happened.
  for (uint32_t wave = 0; wave < 8; ++wave) {
    play_wave(*engine, wave);
    const bool all_seen =
        seen_.changes > 20 && seen_.preemptions > 0 && seen_.cancelled > 0 && seen_.accepted > 100;
    if (all_seen) break;
  }
  EXPECT_GT(seen_.changes, 20);
  EXPECT_GT(seen_.preemptions, 0) << "memory was to run short";
  EXPECT_GT(seen_.cancelled, 0);
  EXPECT_GT(seen_.accepted, 100);
}

TEST_P(LosslessUnderLoad, Sequential) {
  if (is_left_out(0)) GTEST_SKIP() << kLeftOut;
  run_load(one_processor(), "");
}

TEST_P(LosslessUnderLoad, Concurrent) {
  if (is_left_out(1)) GTEST_SKIP() << kLeftOut;
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  run_load(processors.front(), processors.back());
}

TEST_P(LosslessUnderLoad, OnAGroup) {
  if (is_left_out(2)) GTEST_SKIP() << kLeftOut;
  if (on_gpu()) GTEST_SKIP() << "a group of processors";
  run_load("cpu:0,cpu:0", "");
}

// Requests come, end, give way and change their options while they fill one pipeline.
TEST_P(LosslessUnderLoad, InStages) {
  if (is_left_out(3)) GTEST_SKIP() << kLeftOut;
  if (on_gpu()) GTEST_SKIP() << "stages on processors";
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  const std::string& first = processors.front();
  run_load(first + "/" + first, processors.back(), "pipelined");
}

INSTANTIATE_TEST_SUITE_P(Precisions, LosslessUnderLoad,
                         ::testing::Range(size_t{0}, precisions().size()),
                         [](const auto& tested) { return precisions()[tested.param].name; });

}  // namespace
}  // namespace forerun::testing
