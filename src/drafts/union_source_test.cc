#include "drafts/union_source.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace forerun {
namespace {

class Constant : public DraftSource {
 public:
  explicit Constant(std::vector<Candidate> candidates) : candidates_(std::move(candidates)) {}
  void observe(std::span<const TokenId> tokens) override {
    seen += static_cast<int>(tokens.size());
  }
  void propose(std::span<const TokenId>, int32_t count,
               std::vector<Candidate>& out) const override {
    out = candidates_;
    if (out.size() > static_cast<size_t>(count)) out.resize(static_cast<size_t>(count));
  }
  int seen = 0;

 private:
  std::vector<Candidate> candidates_;
};

TEST(UnionSource, KeepsEachTokenOnceWithItsHighestProbability) {
  auto first = std::make_unique<Constant>(std::vector<Candidate>{{1, -0.5f}, {2, -2.0f}});
  auto second = std::make_unique<Constant>(std::vector<Candidate>{{2, -1.0f}, {3, -3.0f}});
  const Constant* watched = second.get();
  std::vector<std::unique_ptr<DraftSource>> sources;
  sources.push_back(std::move(first));
  sources.push_back(std::move(second));
  UnionSource both(std::move(sources));
  const std::vector<TokenId> tokens = {4, 5};
  both.observe(tokens);
  EXPECT_EQ(watched->seen, 2);
  std::vector<Candidate> out;
  both.propose({}, 4, out);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].token, 1);
  EXPECT_EQ(out[1].token, 2);
  EXPECT_EQ(out[1].logprob, -1.0f);
  EXPECT_EQ(out[2].token, 3);
  both.propose({}, 1, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].token, 1);
}

}  // namespace
}  // namespace forerun
