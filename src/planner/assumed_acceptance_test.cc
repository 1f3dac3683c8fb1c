#include "planner/assumed_acceptance.h"

#include <gtest/gtest.h>

#include <cmath>

namespace forerun {
namespace {

TEST(AssumedAcceptance, IsNoMoreThanIsKnown) {
  for (const KvViewEntry& view : view_table()) {
    SCOPED_TRACE(view.name);
    const KvViewFacts& facts = view.facts;
    EXPECT_TRUE(view.check(facts.budget).ok());
    EXPECT_FALSE(view.check(1).ok());
    EXPECT_EQ(assumed_acceptance(facts, facts.budget), facts.acceptance);
    EXPECT_EQ(assumed_acceptance(facts, 4 * facts.budget), facts.acceptance);
  }
  // A view without a known rate.
  EXPECT_EQ(assumed_acceptance({.budget = 512}, 64), 0.0);
}

TEST(AssumedAcceptance, FallsWithTheBudget) {
  for (const double published : {0.83, 0.89}) {
    const KvViewFacts facts = {.budget = 2048, .acceptance = published};
    EXPECT_NEAR(assumed_acceptance(facts, 512), 1.0 - std::sqrt(2.0) * (1.0 - published), 1e-12);
    EXPECT_EQ(assumed_acceptance({.budget = 1 << 30, .acceptance = published}, 1), 0.0);
  }
  const KvViewFacts& snap_kv = find_view("snapkv")->facts;
  const KvViewFacts& streaming_llm = find_view("streaming_llm")->facts;
  for (const int64_t budget : {128, 512, 1024, 4096}) {
    EXPECT_GT(assumed_acceptance(snap_kv, budget), assumed_acceptance(streaming_llm, budget))
        << budget;
  }
}

}  // namespace
}  // namespace forerun
