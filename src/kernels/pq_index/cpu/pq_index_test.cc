// Compares codes with plain loops over all centroids, and scores with the keys that they
// approximate.
#include "kernels/pq_index/pq_index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>
#include <vector>

#include "kernels/attention/cpu/test_cache.h"

namespace forerun {
namespace {

constexpr int32_t kTokens = 640;
constexpr int32_t kKvHeads = 2;

class PqIndexTest : public ::testing::TestWithParam<std::tuple<DType, int32_t>> {
 protected:
  PqIndexTest()
      : head_dim_(std::get<1>(GetParam())),
        cache_(std::get<0>(GetParam()), 40, kKvHeads, head_dim_),
        table_(10),
        blocks_(static_cast<size_t>(pq_index_blocks(kTokens, head_dim_))) {
    for (int32_t block = 0; block < 10; ++block) table_[static_cast<size_t>(block)] = 2 * block + 1;
    std::iota(blocks_.begin(), blocks_.end(), 22);
    for (int32_t token = 0; token < kTokens; ++token) cache_.put(table_, token, 1, token);
    scratch_.reserve(head_dim_, kTokens);
  }
  PqIndex index(int32_t tokens) const { return {blocks_.data(), tokens}; }
  void update(int32_t from, int32_t tokens) {
    for (int32_t head = 0; head < kKvHeads; ++head) {
      pq_update(cache_.kv(), head, table_.data(), index(from), tokens, scratch_);
    }
  }
  // Returns the key as the cache has rounded it.
  std::vector<float> key_of(int32_t token, int32_t head) const {
    std::vector<float> k, v;
    fill_kv(1, token, int64_t{kKvHeads} * head_dim_, k, v);
    std::vector<float> key(k.begin() + head * head_dim_, k.begin() + (head + 1) * head_dim_);
    if (std::get<0>(GetParam()) == DType::kBf16) {
      for (float& x : key) x = to_float(to_bf16(x));
    }
    return key;
  }
  std::vector<float> decoded(int32_t token, int32_t head) const {
    std::vector<float> key(static_cast<size_t>(head_dim_));
    pq_decode(cache_.kv(), head, index(kTokens), token, key.data());
    return key;
  }
  // Returns the contents of the sequence's blocks, for all heads.
  std::vector<std::byte> text() const {
    const PagedKv& kv = cache_.kv();
    std::vector<std::byte> bytes;
    for (const int32_t block : table_) {
      const std::byte* const from = kv.data + block * kv.block_stride_bytes;
      bytes.insert(bytes.end(), from, from + kv.layer_bytes());
    }
    return bytes;
  }
  double distance(const std::vector<float>& a, const std::vector<float>& b) const {
    double sum = 0.0;
    for (size_t dim = 0; dim < a.size(); ++dim) sum += std::pow(a[dim] - b[dim], 2);
    return sum;
  }

  const int32_t head_dim_;
  TestCache cache_;
  std::vector<int32_t> table_, blocks_;
  PqScratch scratch_;
};

// With as many tokens as centroids, each token is its own centroid.
TEST_P(PqIndexTest, FewKeysAreKept) {
  update(0, 256);
  for (const int32_t token : {0, 1, 77, 255}) {
    for (int32_t head = 0; head < kKvHeads; ++head) {
      EXPECT_LE(distance(decoded(token, head), key_of(token, head)), 1e-6) << token;
    }
  }
}

TEST_P(PqIndexTest, EveryCodeIsTheNearestCentroidsAlsoOfTokensThatComeLater) {
  update(0, 512);
  std::vector<float> centroids(static_cast<size_t>(head_dim_ * kPqCentroids));
  std::vector<float> later(centroids.size());
  pq_centroids(cache_.kv(), 1, index(512), centroids.data());
  update(512, 576);
  update(576, kTokens);
  pq_centroids(cache_.kv(), 1, index(kTokens), later.data());
  EXPECT_EQ(centroids, later);
  const int32_t dims = (head_dim_ + 15) / 16;
  for (int32_t token = 0; token < kTokens; token += 9) {
    const std::vector<float> key = key_of(token, 1);
    const std::vector<float> found = decoded(token, 1);
    for (int32_t begin = 0; begin < head_dim_; begin += dims) {
      const int32_t end = std::min(begin + dims, head_dim_);
      const auto to = [&](auto coordinate) {
        double sum = 0.0;
        for (int32_t dim = begin; dim < end; ++dim) {
          sum += std::pow(key[static_cast<size_t>(dim)] - coordinate(dim), 2);
        }
        return sum;
      };
      double least = 1e30;
      for (int32_t c = 0; c < kPqCentroids; ++c) {
        least = std::min(least, to([&](int32_t dim) {
                           return centroids[static_cast<size_t>(dim * kPqCentroids + c)];
                         }));
      }
      ASSERT_LE(to([&](int32_t dim) { return found[static_cast<size_t>(dim)]; }), least + 1e-4);
    }
  }
}

TEST_P(PqIndexTest, CentroidsAreNearerThanTheKeysThatTheyBeganWith) {
  update(0, kTokens);
  double error = 0.0, size = 0.0;
  for (int32_t token = 0; token < kTokens; ++token) {
    const std::vector<float> key = key_of(token, 0);
    error += distance(decoded(token, 0), key);
    size += distance(std::vector<float>(key.size()), key);
  }
  // 256 centroids for up to 4 uniform coordinates leave at most a sixteenth of the variance.
  EXPECT_LT(error, 0.12 * size);
}

TEST_P(PqIndexTest, ScoresAreThoseOfTheDecodedKeys) {
  update(0, kTokens);
  constexpr size_t kQueries = 3;
  std::vector<std::vector<float>> queries(kQueries, std::vector<float>(head_dim_));
  std::vector<const float*> rows;
  for (size_t query = 0; query < kQueries; ++query) {
    for (size_t dim = 0; dim < queries[query].size(); ++dim) {
      queries[query][dim] = std::sin(1.0f + 3.0f * static_cast<float>(dim + 100 * query));
    }
    rows.push_back(queries[query].data());
  }
  for (int32_t head = 0; head < kKvHeads; ++head) {
    std::vector<float> scores(kTokens * kQueries, 7.0f);
    pq_scores(cache_.kv(), head, index(kTokens), kTokens, rows, 0.25f, scores.data(), scratch_);
    for (int32_t token = 0; token < kTokens; ++token) {
      const std::vector<float> key = decoded(token, head);
      for (size_t query = 0; query < kQueries; ++query) {
        double score = 0.0;
        for (size_t dim = 0; dim < key.size(); ++dim) {
          score += 0.25 * queries[query][dim] * key[dim];
        }
        const auto tile = static_cast<size_t>(token / 64) * kQueries + query;
        ASSERT_NEAR(scores[tile * 64 + static_cast<size_t>(token % 64)], score, 1e-4);
      }
    }
  }
}

// Other heads' parts of the blocks, the padding of heads and the sequence's KV must not change.
TEST_P(PqIndexTest, WritesNothingElse) {
  const PagedKv& kv = cache_.kv();
  const std::vector<std::byte> before = text();
  pq_update(kv, 0, table_.data(), index(0), kTokens, scratch_);
  for (const int32_t block : blocks_) {
    for (int32_t slot = 0; slot < 64; ++slot) {
      const auto bytes = static_cast<int64_t>(dtype_bytes(kv.dtype));
      const int64_t used = kv.head_dim * bytes;
      for (int64_t at = used; at < kv.head_bytes(); ++at) {
        ASSERT_EQ(kv.value(block, slot, 0)[at], std::byte{0});
        ASSERT_EQ(kv.key(block, slot, 0)[at / 16 * 64 + at % 16], std::byte{0});
      }
      // The cache is filled with NaN at first.
      float first = 0.0f;
      if (kv.dtype == DType::kF32) {
        std::memcpy(&first, kv.value(block, slot, 1), sizeof first);
      } else {
        first = to_float(*reinterpret_cast<const bf16*>(kv.value(block, slot, 1)));
      }
      ASSERT_TRUE(std::isnan(first));
    }
  }
  update(0, kTokens);
  EXPECT_TRUE(text() == before);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PqIndexTest,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kBf16),
                                            ::testing::Values(16, 20, 64)));

}  // namespace
}  // namespace forerun
