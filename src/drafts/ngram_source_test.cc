#include "drafts/ngram_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <random>

namespace forerun {
namespace {

// Implements the header's algorithm with plain loops over all positions.
std::map<TokenId, double> brute_force(const std::vector<TokenId>& seen,
                                      const std::vector<TokenId>& path, size_t max_order,
                                      size_t min_order, size_t max_scanned) {
  std::vector<TokenId> all = seen;
  all.insert(all.end(), path.begin(), path.end());
  std::map<TokenId, double> result;
  double mass = 1.0;
  for (size_t n = max_order; n >= min_order; --n) {
    if (all.size() < n) continue;
    std::map<TokenId, int> counts;
    size_t scanned = 0;
    int total = 0;
    for (size_t at = seen.size(); at-- > n && scanned < max_scanned;) {
      if (!std::equal(all.end() - static_cast<std::ptrdiff_t>(n), all.end(),
                      seen.begin() + static_cast<std::ptrdiff_t>(at - n))) {
        continue;
      }
      ++scanned;
      ++counts[seen[at]];
      ++total;
    }
    if (counts.empty()) continue;
    const double whole = total + static_cast<double>(counts.size());
    for (const auto& [token, count] : counts) result[token] += mass * count / whole;
    mass *= static_cast<double>(counts.size()) / whole;
  }
  return result;
}

TEST(NgramSource, AgreesWithBruteForce) {
  std::mt19937 rng(11);
  for (int trial = 0; trial < 200; ++trial) {
    NgramSource::Params params;
    params.max_order = 1 + static_cast<int32_t>(rng() % 4);
    params.min_order = 1 + static_cast<int32_t>(rng() % static_cast<uint32_t>(params.max_order));
    params.max_scanned = 1 + static_cast<int32_t>(rng() % 10);
    NgramSource source(params);
    const auto alphabet = 2 + rng() % 4;
    std::vector<TokenId> seen;
    for (auto i = rng() % 80; i > 0; --i) {
      seen.push_back(static_cast<TokenId>(rng() % alphabet));
      source.observe({&seen.back(), 1});
    }
    std::vector<TokenId> path;
    for (auto i = rng() % 6; i > 0; --i) path.push_back(static_cast<TokenId>(rng() % alphabet));
    std::vector<Candidate> out = {{77, 0.0f}};
    source.propose(path, 100, out);
    const auto expected =
        brute_force(seen, path, static_cast<size_t>(params.max_order),
                    static_cast<size_t>(params.min_order), static_cast<size_t>(params.max_scanned));
    ASSERT_EQ(out.size(), expected.size());
    float before = 0.0f;
    double sum = 0.0;
    for (const Candidate& candidate : out) {
      ASSERT_TRUE(expected.contains(candidate.token));
      EXPECT_NEAR(std::exp(candidate.logprob), expected.at(candidate.token), 1e-5);
      EXPECT_LE(candidate.logprob, before);
      before = candidate.logprob;
      sum += std::exp(candidate.logprob);
    }
    EXPECT_LE(sum, 1.0 + 1e-5);
    std::vector<Candidate> fewer;
    source.propose(path, 2, fewer);
    ASSERT_EQ(fewer.size(), std::min<size_t>(2, out.size()));
    for (size_t i = 0; i < fewer.size(); ++i) EXPECT_EQ(fewer[i].token, out[i].token);
  }
}

TEST(NgramSource, ProposesNothingWithoutHistory) {
  NgramSource source;
  std::vector<Candidate> out = {{1, 0.0f}};
  source.propose({}, 4, out);
  EXPECT_TRUE(out.empty());
  const std::vector<TokenId> path = {1, 2, 3, 4, 5};
  source.propose(path, 4, out);
  EXPECT_TRUE(out.empty());
}

TEST(NgramSource, ARepeatedTokenStaysCheap) {
  NgramSource source;
  const std::vector<TokenId> same(300000, 7);
  const std::clock_t begin = std::clock();
  source.observe(same);
  std::vector<Candidate> out;
  for (int i = 0; i < 1000; ++i) source.propose({}, 4, out);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5.0);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].token, 7);
  EXPECT_GT(out[0].logprob, std::log(0.95f));
}

}  // namespace
}  // namespace forerun
