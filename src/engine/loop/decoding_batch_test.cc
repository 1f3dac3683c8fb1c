#include "engine/loop/decoding_batch.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

DecodingBatch make_batch() {
  return DecodingBatch(/*costs=*/nullptr, /*drafts_sequentially=*/true);
}

TEST(DecodingBatch, ARequestDecodesFromItsFirstTokenOn) {
  DecodingBatch batch = make_batch();
  DecodingBatch::Share share;
  batch.admit(share, 10);
  EXPECT_EQ(batch.count(share, 10, true), 0);
  EXPECT_FALSE(share.decodes());
  EXPECT_EQ(batch.sequences(), 0);
  EXPECT_EQ(batch.count(share, 11, true), 1);
  EXPECT_TRUE(share.decodes());
  EXPECT_EQ(batch.sequences(), 1);
  EXPECT_EQ(batch.tokens(), 11);
  EXPECT_EQ(batch.automatic_tokens(), 0);
  EXPECT_EQ(batch.count(share, 14, true), 3);
  EXPECT_EQ(batch.count(share, 14, true), 0);
  EXPECT_EQ(batch.tokens(), 14);
  EXPECT_EQ(batch.automatic_tokens(), 3);
}

// Its earlier tokens are not counted again.
TEST(DecodingBatch, ARequestThatComesBackStartsFromItsTokens) {
  DecodingBatch batch = make_batch();
  DecodingBatch::Share share;
  batch.admit(share, 10);
  batch.count(share, 11, true);
  batch.count(share, 14, true);
  batch.retire(share, true);
  EXPECT_FALSE(share.decodes());
  EXPECT_EQ(batch.sequences(), 0);
  EXPECT_EQ(batch.tokens(), 0);
  batch.admit(share, 14);
  EXPECT_EQ(batch.count(share, 14, true), 0);
  EXPECT_FALSE(share.decodes());
  EXPECT_EQ(batch.count(share, 16, true), 2);
  EXPECT_EQ(batch.tokens(), 16);
  EXPECT_EQ(batch.automatic_tokens(), 3);
}

TEST(DecodingBatch, ARequestThatNeverDecodedLeavesNothing) {
  DecodingBatch batch = make_batch();
  DecodingBatch::Share decodes, reads;
  batch.admit(decodes, 10);
  batch.admit(reads, 100);
  batch.count(decodes, 12, true);
  batch.retire(reads, true);
  EXPECT_EQ(batch.sequences(), 1);
  EXPECT_EQ(batch.tokens(), 12);
  EXPECT_EQ(batch.automatic_sequences(), batch.sequences());
}

TEST(DecodingBatch, CountsRequestsWhosePlanTheEngineHasChosen) {
  DecodingBatch batch = make_batch();
  DecodingBatch::Share first, second;
  EXPECT_EQ(batch.automatic_sequences(), 0);
  batch.admit(first, 10);
  batch.admit(second, 10);
  batch.change_plan(second, true, false);  // it does not decode
  batch.count(first, 11, true);
  EXPECT_EQ(batch.automatic_sequences(), 1);
  batch.count(second, 11, false);
  EXPECT_EQ(batch.automatic_sequences(), 1);
  batch.count(first, 13, true);
  batch.count(second, 14, false);
  EXPECT_EQ(batch.automatic_tokens(), 2);
  batch.change_plan(second, false, true);
  EXPECT_EQ(batch.automatic_sequences(), 2);
  batch.change_plan(first, true, false);
  EXPECT_EQ(batch.automatic_sequences(), 1);
  batch.retire(first, false);
  EXPECT_EQ(batch.automatic_sequences(), 1);
  batch.retire(second, true);
  EXPECT_EQ(batch.automatic_sequences(), 0);
}

}  // namespace
}  // namespace forerun
