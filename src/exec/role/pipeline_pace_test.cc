#include "exec/role/pipeline_pace.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

// Stages of 10; a pass takes 83.
TEST(PipelinePaceTest, AResultIsDueWithinHalfOfAStagesTime) {
  PipelinePace pace;
  EXPECT_FALSE(pace.is_due(10, 83)) << "no Step has retired";
  pace.observe(100, 110, 183);
  EXPECT_FALSE(pace.is_due(10, 70));
  EXPECT_TRUE(pace.is_due(10, 80)) << "the first stage has ended eight Steps";
  EXPECT_TRUE(pace.is_due(10, 86)) << "a little late";
  EXPECT_FALSE(pace.is_due(10, 120)) << "something holds it up";
}

TEST(PipelinePaceTest, FollowsTheTimesOfSteps) {
  PipelinePace pace;
  pace.observe(0, 10, 83);
  pace.observe(5, 5, 5);  // says nothing
  EXPECT_TRUE(pace.is_due(10, 80));
  for (int step = 0; step < 100; ++step) pace.observe(0, 20, 166);
  EXPECT_FALSE(pace.is_due(10, 80));
  EXPECT_TRUE(pace.is_due(20, 160));
}

}  // namespace
}  // namespace forerun
