#include "engine/info/load_meter.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(RateMeter, CountsTheLastTenSeconds) {
  RateMeter meter(100.5);
  EXPECT_EQ(meter.per_s(100.5), 0.0);
  meter.add(100.6, 30);
  meter.add(101.5, 30);
  EXPECT_DOUBLE_EQ(meter.per_s(102.5), 30.0);
  // The window begins at 103.0: earlier events are forgotten.
  meter.add(111.0, 45);
  EXPECT_DOUBLE_EQ(meter.per_s(112.0), 5.0);
  EXPECT_EQ(meter.per_s(1000.0), 0.0);
}

TEST(LoadMeter, PlacesAreTakenAllOrNone) {
  LoadMeter meter(3);
  auto two = meter.take_places(2);
  ASSERT_TRUE(two.ok());
  const auto none = meter.take_places(2);
  EXPECT_EQ(none.status().code(), StatusCode::kOverloaded);
  EXPECT_EQ(none.status().retry_after().count(), 1000) << "nothing has ended yet";
  EXPECT_EQ(meter.load().waiting_requests, 2);
  EXPECT_EQ(meter.take_places(4).status().code(), StatusCode::kInvalidArgument);
  meter.set_running(1);
  EXPECT_EQ(meter.load().waiting_requests, 1);
  two->front().give_back();
  two->front().give_back();
  EXPECT_EQ(meter.load().ended_requests, 1);
  EXPECT_TRUE(meter.take_places(2).ok());
}

TEST(LoadMeter, WithoutALimitNobodyIsRefused) {
  LoadMeter meter(-1);
  EXPECT_TRUE(meter.take_places(100000).ok());
}

TEST(LoadMeter, ProgressIsKeptByStrategy) {
  LoadMeter meter(-1);
  StrategyStats before, now;
  now.target_steps = 5;
  now.drafted_tokens = 8;
  now.accepted_tokens = 4;
  meter.note_progress("serial_tree", 9, before, now);
  meter.note_progress("autoregressive", 1, before, before);
  meter.note_progress("serial_tree", 1, now, now);
  const EngineLoad load = meter.load();
  EXPECT_EQ(load.output_tokens, 11);
  ASSERT_EQ(load.strategies.size(), 2u);
  EXPECT_EQ(load.strategies[0].strategy, "serial_tree");
  EXPECT_EQ(load.strategies[0].output_tokens, 10);
  EXPECT_EQ(load.strategies[0].target_steps, 5);
  EXPECT_DOUBLE_EQ(load.strategies[0].acceptance(), 0.5);
}

}  // namespace
}  // namespace forerun
