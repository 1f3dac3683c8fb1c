#include "sampling/scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "base/noise.h"
#include "kernels/isa.h"

namespace forerun {
namespace {

struct Variant {
  const char* name;
  const ScanKernels* kernels;
};

std::vector<Variant> variants() {
  std::vector<Variant> all = {{"scalar", &scan_kernels_scalar()}};
#if defined(__x86_64__)
  if (isa_is_supported(Isa::kAvx2)) all.push_back({"avx2", &scan_kernels_avx2()});
  if (isa_is_supported(Isa::kAvx512)) all.push_back({"avx512", &scan_kernels_avx512()});
#endif
  return all;
}

// Padded with NaN at the end, and unaligned.
struct Row {
  Row(int64_t count, uint32_t seed, float spread) : storage(static_cast<size_t>(count) + 40, NAN) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal(0.0f, spread);
    for (int64_t token = 0; token < count; ++token) data()[token] = normal(rng);
  }
  float* data() { return storage.data() + 3; }
  std::vector<float> storage;
};

const int64_t kCounts[] = {1, 3, 4, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 8190, 32001};

TEST(Scan, LaneMaximaAreTheMaximaOfTheirLanes) {
  for (const Variant& variant : variants()) {
    for (int64_t count : kCounts) {
      Row row(count, 7, 5.0f);
      const int64_t blocks = (count + kScanBlock - 1) / kScanBlock;
      std::vector<float> lanes(static_cast<size_t>(blocks * kScanLanes), NAN);
      ASSERT_TRUE(variant.kernels->lane_max(row.data(), count, lanes.data())) << variant.name;
      std::vector<float> expected(lanes.size(), -INFINITY);
      for (int64_t token = 0; token < count; ++token) {
        float& best =
            expected[static_cast<size_t>(token / kScanBlock * kScanLanes + token % kScanLanes)];
        best = std::max(best, row.data()[token]);
      }
      EXPECT_EQ(lanes, expected) << variant.name << " " << count;
    }
  }
}

TEST(Scan, NanAndInfinityAreFoundWhereverTheyAre) {
  for (const Variant& variant : variants()) {
    for (int64_t count : {1, 17, 256, 700}) {
      std::vector<float> lanes(static_cast<size_t>((count / kScanBlock + 1) * kScanLanes));
      for (float bad : {NAN, -NAN, INFINITY}) {
        for (int64_t where = 0; where < count; where += 13) {
          Row row(count, 1, 1.0f);
          row.data()[where] = bad;
          EXPECT_FALSE(variant.kernels->lane_max(row.data(), count, lanes.data()))
              << variant.name << " " << where;
        }
      }
      Row row(count, 1, 1.0f);
      row.data()[count - 1] = -INFINITY;
      EXPECT_TRUE(variant.kernels->lane_max(row.data(), count, lanes.data())) << variant.name;
    }
  }
}

TEST(Scan, ExpIsAccurateAndHasTheSameBitsEverywhere) {
  for (float x = 0.0f; x > -90.0f; x -= 0.00317f) {
    const double exact = x >= -87.0f ? std::exp(static_cast<double>(x)) : 0.0;
    EXPECT_NEAR(static_cast<double>(exp_score(x)), exact, 2e-7 * exact);
  }
  EXPECT_EQ(exp_score(0.0f), 1.0f);
  EXPECT_EQ(exp_score(-INFINITY), 0.0f);
  for (const Variant& variant : variants()) {
    for (int64_t count : kCounts) {
      Row row(count, 3, 9.0f);
      row.data()[count / 2] = -INFINITY;
      const ScoreScale scale{60.0f, 1.0f / 0.7f};
      std::vector<float> weights(static_cast<size_t>(count));
      uint64_t expected = 0;
      const uint64_t sum = variant.kernels->exp_weights(row.data(), count, scale, weights.data());
      for (int64_t token = 0; token < count; ++token) {
        const float weight =
            exp_score((row.data()[token] - scale.max_logit) * scale.inv_temperature);
        EXPECT_EQ(weights[static_cast<size_t>(token)], weight) << variant.name << " " << token;
        expected += to_fixed_weight(weight);
      }
      EXPECT_EQ(sum, expected) << variant.name << " " << count;
      EXPECT_EQ(variant.kernels->exp_weights(row.data(), count, scale, nullptr), expected);
    }
  }
}

TEST(Scan, CollectFindsExactlyWhatReachesTheThreshold) {
  for (const Variant& variant : variants()) {
    for (int64_t count : kCounts) {
      Row row(count, 5, 2.0f);
      std::vector<float> lanes(static_cast<size_t>((count / kScanBlock + 1) * kScanLanes));
      ASSERT_TRUE(variant.kernels->lane_max(row.data(), count, lanes.data()));
      for (float threshold : {-100.0f, 0.0f, row.data()[count / 3], 4.0f, 100.0f}) {
        std::vector<int32_t> expected;
        for (int64_t token = 0; token < count; ++token) {
          if (row.data()[token] >= threshold) expected.push_back(static_cast<int32_t>(token));
        }
        std::vector<int32_t> found(static_cast<size_t>(count));
        found.resize(static_cast<size_t>(
            variant.kernels->collect(row.data(), count, lanes.data(), threshold, found.data())));
        EXPECT_EQ(found, expected) << variant.name << " " << count << " " << threshold;
      }
    }
  }
}

// No token that reaches the bound may be missing, all must have the stream's own bits, and few
// other tokens may pass.
TEST(Scan, SurvivorsIncludeEveryTokenThatReachesTheBound) {
  const uint64_t seed = 0x123456789abcdef0ull;
  for (const Variant& variant : variants()) {
    int64_t survivors_seen = 0;
    int64_t needed = 0;
    for (int64_t count : kCounts) {
      for (int32_t position : {0, 1, 77777}) {
        Row row(count, static_cast<uint32_t>(position) + 11, 3.0f);
        // Rows may be parts of a vocabulary.
        const uint32_t first_token = position == 1 ? 4112 : 0;
        const ScoreScale scale{10.0f, 1.25f};
        std::vector<float> lanes(static_cast<size_t>((count / kScanBlock + 1) * kScanLanes));
        ASSERT_TRUE(variant.kernels->lane_max(row.data(), count, lanes.data()));
        const NoiseKey key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                           static_cast<uint32_t>(position),
                           static_cast<uint32_t>(NoiseStream::kTarget), first_token};
        const int64_t blocks = (count + kScanBlock - 1) / kScanBlock;
        for (float bound : {-INFINITY, -30.0f, -12.0f, -6.0f, -2.0f, 3.0f}) {
          std::vector<Survivor> found(static_cast<size_t>(blocks * kScanBlock));
          found.resize(static_cast<size_t>(variant.kernels->noise_survivors(
              row.data(), count, lanes.data(), scale, key, bound, 0, blocks, found.data())));
          std::set<int32_t> tokens;
          for (const Survivor& survivor : found) {
            EXPECT_TRUE(tokens.insert(survivor.token).second);
            ASSERT_LT(survivor.token, count) << variant.name << " bound " << bound;
            EXPECT_EQ(survivor.noise_bits,
                      noise_bits(seed, NoiseStream::kTarget, position,
                                 first_token + static_cast<uint32_t>(survivor.token)));
            const float score =
                (row.data()[survivor.token] - scale.max_logit) * scale.inv_temperature;
            EXPECT_GE(survivor.bound, score + gumbel_noise(survivor.noise_bits));
          }
          for (int64_t token = 0; token < count; ++token) {
            const float score = (row.data()[token] - scale.max_logit) * scale.inv_temperature;
            const float keyed =
                score + gumbel_noise(noise_bits(seed, NoiseStream::kTarget, position,
                                                first_token + static_cast<uint32_t>(token)));
            if (keyed < bound) continue;
            ++needed;
            EXPECT_TRUE(tokens.contains(static_cast<int32_t>(token)))
                << variant.name << " count " << count << " token " << token;
          }
          survivors_seen += static_cast<int64_t>(found.size());
        }
      }
    }
    EXPECT_GT(needed, 1000);
    EXPECT_LT(survivors_seen, 2 * needed) << variant.name;
  }
}

}  // namespace
}  // namespace forerun
