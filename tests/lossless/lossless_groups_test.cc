// The promise on tensor-parallel groups: at any degree of either model every strategy gives what
// plain decoding gives at the target's degree.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lossless/lossless_cases.h"

namespace forerun::testing {
namespace {

// `degree` devices of one thread, on these processors in turn.
std::string group_on(const std::vector<std::string>& processors, size_t degree) {
  std::string devices = processors.front();
  for (size_t device = 1; device < degree; ++device) {
    devices += "," + processors[device % processors.size()];
  }
  return devices;
}

std::vector<std::string> all_processors() {
  const std::vector<std::string> two = two_processors();
  return two.empty() ? std::vector<std::string>{"cpu:0"} : two;
}

// Both models sequentially on groups of every degree: each degree is a numeric fingerprint of its
// own.
class LosslessGroups : public ::testing::TestWithParam<size_t> {};

TEST_P(LosslessGroups, SequentialRolesEqualPlainDecoding) {
  if (on_gpu()) GTEST_SKIP() << "groups of processors";
  const Precision precision = precisions()[GetParam()];
  const bool is_int4 = precision.spec.quantization == ToySpec::Quantization::kAwq;
  const ToyPair pair(precision.spec, is_int4 ? 0.04f : 0.15f);
  int64_t accepted = 0;
  for (size_t degree = 1; degree <= 3; ++degree) {
    const auto engine =
        make_engine(pair.target(), pair.draft(), precision, group_on(all_processors(), degree));
    ASSERT_NE(engine, nullptr);
    EXPECT_NE(engine->info().numeric_fingerprint.find("tp" + std::to_string(degree)),
              std::string::npos);
    for (uint64_t seed = 0; seed <= 4; ++seed) {
      Request request = request_of(seed, seed > 0);
      request.speculation = SpeculationOptions{.strategy = "autoregressive"};
      const Output plain = complete(*engine, request);
      ASSERT_TRUE(plain.error.ok()) << plain.error.message();
      const std::vector<Request> requests =
          part_of(slice(by_every_policy(request, precision), 4, seed + degree),
                  GetParam() + seed / 4 + degree);
      const std::vector<Output> outputs = complete_together(*engine, requests);
      for (size_t idx = 0; idx < outputs.size(); ++idx) {
        expect_same(
            plain, outputs[idx],
            precision.name + " degree " + std::to_string(degree) + " " + describe(requests[idx]));
        accepted += outputs[idx].stats.accepted_tokens;
      }
    }
    EXPECT_EQ(engine->kv_blocks_in_use(), 0);
  }
  EXPECT_GT(accepted, in_part(500));
}

// Target and draft concurrent, each at a degree of its own.
TEST_P(LosslessGroups, ConcurrentRolesEqualPlainDecoding) {
  if (on_gpu()) GTEST_SKIP() << "groups of processors";
  const std::vector<std::string> processors = two_processors();
  if (processors.empty()) GTEST_SKIP() << "one processor";
  const Precision precision = precisions()[GetParam()];
  const bool is_int4 = precision.spec.quantization == ToySpec::Quantization::kAwq;
  const ToyPair pair(precision.spec, is_int4 ? 0.04f : 0.15f);
  int64_t accepted = 0;
  for (size_t target_degree = 1; target_degree <= 3; ++target_degree) {
    const std::string target_devices = group_on({processors.front()}, target_degree);
    const auto plain_engine = make_engine(pair.target(), pair.draft(), precision, target_devices);
    ASSERT_NE(plain_engine, nullptr);
    for (size_t draft_degree = 1; draft_degree <= 3; ++draft_degree) {
      if (!runs(GetParam() + 3 * target_degree + draft_degree)) continue;
      const auto engine = make_engine(pair.target(), pair.draft(), precision, target_devices,
                                      group_on({processors.back()}, draft_degree));
      ASSERT_NE(engine, nullptr);
      for (uint64_t seed = 0; seed <= 2; ++seed) {
        Request request = request_of(seed, seed > 0);
        request.speculation = SpeculationOptions{.strategy = "autoregressive"};
        const Output plain = complete(*plain_engine, request);
        const std::vector<Request> requests =
            slice(by_every_policy(request, precision), 4, seed + target_degree + draft_degree);
        const std::vector<Output> outputs = complete_together(*engine, requests);
        for (size_t idx = 0; idx < outputs.size(); ++idx) {
          expect_same(plain, outputs[idx],
                      precision.name + " degrees " + std::to_string(target_degree) + " and " +
                          std::to_string(draft_degree) + " " + describe(requests[idx]));
          accepted += outputs[idx].stats.accepted_tokens;
        }
      }
      EXPECT_TRUE(releases_its_kv(*engine));
    }
  }
  EXPECT_GT(accepted, in_part(500));
}

INSTANTIATE_TEST_SUITE_P(Precisions, LosslessGroups,
                         ::testing::Range(size_t{0}, precisions().size()),
                         [](const auto& tested) { return precisions()[tested.param].name; });

// Rule `rejection` at temperature 0 has nothing to draw: it must equal plain decoding too.
TEST(LosslessRejection, GreedyEqualsPlainDecoding) {
  const Precision precision = precisions().front();
  const ToyPair pair(precision.spec);
  for (const size_t degree : {1, 2, 3}) {
    const auto engine =
        make_engine(pair.target(), pair.draft(), precision, group_on(all_processors(), degree));
    ASSERT_NE(engine, nullptr);
    for (uint64_t seed = 0; seed < 4; ++seed) {
      Request request = request_of(seed, false);
      request.speculation = SpeculationOptions{.strategy = "autoregressive"};
      const Output plain = complete(*engine, request);
      for (const Request& drawn : by_every_policy(request, precision)) {
        if (drawn.speculation->accept != "rejection") continue;
        expect_same(plain, complete(*engine, drawn), describe(drawn));
      }
    }
  }
}

}  // namespace
}  // namespace forerun::testing
