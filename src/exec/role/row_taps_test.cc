#include "exec/role/row_taps.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(RowTaps, NodesBecomePrefixAndAreForgotten) {
  TapPlaces places(8);
  RowTaps taps(&places);
  const int32_t a = taps.add_prefix(5);
  const int32_t b = taps.add_node(1);
  const int32_t c = taps.add_node(2);
  EXPECT_EQ(taps.of_prefix(5), a);
  EXPECT_EQ(taps.of_prefix(4), -1);
  EXPECT_EQ(taps.of_prefix(6), -1);
  EXPECT_EQ(taps.of_node(2), c);
  EXPECT_EQ(taps.of_node(3), -1);
  taps.commit(1, 6);
  taps.keep_nodes([](NodeId) { return false; });
  EXPECT_EQ(taps.of_prefix(6), b);
  EXPECT_EQ(taps.of_node(2), -1);
  // A node without a place leaves a gap.
  taps.commit(9, 7);
  EXPECT_EQ(taps.of_prefix(7), -1);
  EXPECT_EQ(taps.add_prefix(8), c) << "the place given back last is taken first";
  taps.forget_before(8);
  EXPECT_EQ(taps.of_prefix(6), -1);
  EXPECT_EQ(taps.of_prefix(8), c);
  taps.forget_from(8);
  EXPECT_EQ(taps.of_prefix(8), -1);
}

TEST(RowTaps, MissingRowsEndWhatWasKept) {
  TapPlaces places(8);
  RowTaps taps(&places);
  taps.add_prefix(0);
  taps.add_prefix(1);
  const int32_t later = taps.add_prefix(64);
  EXPECT_EQ(taps.of_prefix(1), -1);
  EXPECT_EQ(taps.of_prefix(64), later);
}

TEST(RowTaps, SequencesShareThePlaces) {
  constexpr int32_t kPlaces = 2 * TapPlaces::kMinKept + 10;
  TapPlaces places(kPlaces);
  {
    RowTaps first(&places);
    for (int32_t position = 0; position < kPlaces; ++position) {
      EXPECT_GE(first.add_prefix(position), 0);
    }
    // No place is left: the first sequence frees all but its last rows.
    RowTaps second(&places);
    EXPECT_GE(second.add_prefix(0), 0);
    EXPECT_EQ(first.of_prefix(kPlaces - TapPlaces::kMinKept - 1), -1);
    EXPECT_GE(first.of_prefix(kPlaces - TapPlaces::kMinKept), 0);
    for (int32_t position = 1; position < TapPlaces::kMinKept + 10; ++position) {
      EXPECT_GE(second.add_prefix(position), 0);
    }
    EXPECT_GE(second.add_node(1), 0) << "its own first rows make room";
  }
  RowTaps third(&places);
  for (int32_t position = 0; position < kPlaces; ++position) {
    EXPECT_GE(third.add_prefix(position), 0) << "all places came back";
  }
}

TEST(RowTaps, APromptKeepsItsEnd) {
  TapPlaces places(10'000);
  RowTaps taps(&places);
  for (int32_t position = 0; position < 5000; ++position) taps.add_prefix(position);
  EXPECT_EQ(taps.of_prefix(5000 - TapPlaces::kMaxKept - 1), -1);
  EXPECT_GE(taps.of_prefix(5000 - TapPlaces::kMaxKept), 0);
}

}  // namespace
}  // namespace forerun
