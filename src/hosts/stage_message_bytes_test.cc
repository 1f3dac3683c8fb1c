#include "hosts/stage_message_bytes.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace forerun {
namespace {

StageMessage filled_message(uint32_t seed) {
  std::mt19937 rng(seed);
  const auto number = [&rng] { return static_cast<int32_t>(rng()); };
  StageMessage message;
  message.step = (uint64_t{rng()} << 32) | rng();
  for (int idx = 0; idx < 5; ++idx) message.blocks.push_back(number());
  for (int idx = 0; idx < 3; ++idx) message.tables.push_back({number(), number()});
  message.moves_of.push_back({number(), {number(), number()}});
  for (int idx = 0; idx < 4; ++idx) message.moves.push_back({number(), number()});
  for (int idx = 0; idx < 6; ++idx) {
    message.rows.push_back(
        {number(), number(), number(), number(), number(), number(), number(), idx % 2 == 0});
    message.numbers.push_back(number());
  }
  message.issued_rows = number();
  message.whole = seed % 2 == 0;
  for (int idx = 0; idx < 7; ++idx) message.ancestors.push_back(number());
  message.selections.push_back({.what = {.first_row = number(),
                                         .num_rows = number(),
                                         .sequence_idx = number(),
                                         .first_weighed = number(),
                                         .weighed_step = number(),
                                         .tokens = number(),
                                         .chosen = number(),
                                         .pooling = number(),
                                         .indexed = number()},
                                .blocks = {number(), number()},
                                .index = {number(), number()}});
  message.hidden_dtype = seed % 2 == 0 ? DType::kF32 : DType::kBf16;
  message.hidden_width = number();
  for (int idx = 0; idx < 33; ++idx) message.hidden.push_back(static_cast<std::byte>(rng()));
  return message;
}

Bytes bytes_of(const StageMessage& message) {
  Bytes bytes;
  WireWriter to(&bytes);
  write_stage_message(message, to);
  return bytes;
}

Status read(const Bytes& bytes, StageMessage& message) {
  WireReader from(bytes);
  read_stage_message(from, message);
  return from.finish();
}

// Every field is random, so a message that is written again as the same bytes has been read
// completely.
TEST(StageMessageBytes, ComeBackAsTheyWere) {
  StageMessage read_back;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const StageMessage message = filled_message(seed);
    const Bytes bytes = bytes_of(message);
    ASSERT_TRUE(read(bytes, read_back).ok());
    EXPECT_EQ(bytes_of(read_back), bytes);
    EXPECT_EQ(read_back.step, message.step);
    EXPECT_EQ(read_back.rows[3].visible, message.rows[3].visible);
    EXPECT_EQ(read_back.rows[2].wants_logits, true);
    EXPECT_EQ(read_back.whole, message.whole);
    EXPECT_EQ(read_back.selections[0].what.indexed, message.selections[0].what.indexed);
    EXPECT_EQ(read_back.hidden_dtype, message.hidden_dtype);
    EXPECT_EQ(read_back.hidden, message.hidden);
  }
  ASSERT_TRUE(read(bytes_of(StageMessage()), read_back).ok());
  EXPECT_TRUE(read_back.rows.empty() && read_back.hidden.empty() && read_back.blocks.empty());
}

// A Step without taps has no bytes for them: its rows' fields of 29 bytes, numbers of 4, ancestors
// of 4, tables and blocks, and the lengths of all lists.
TEST(StageMessageBytes, HoldNothingOfTaps) {
  const std::vector<int32_t> table = {3, 1};
  Step step;
  step.sequences.push_back({table.data()});
  for (int32_t row = 0; row < 3; ++row) {
    step.rows.push_back({.token = row,
                         .position = 64 + row,
                         .slot = 64 + row,
                         .visible = 65 + row,
                         .boundary = 65 + row});
  }
  StageMessage message;
  message.add_rows(step);
  constexpr size_t kLists = 9;
  constexpr size_t kFixed = 4 + 8 + 4 + 1 + 1 + 8;  // version, number, issued, whole, type, width
  EXPECT_EQ(bytes_of(message).size(),
            kFixed + kLists * sizeof(uint64_t) + 2 * 4 + 2 * 4 + 3 * (29 + 4));
  EXPECT_EQ(kStageMessageVersion, 2u) << "what is sent has changed";
}

TEST(StageMessageBytes, EveryBeginningIsRefused) {
  const Bytes bytes = bytes_of(filled_message(1));
  StageMessage message;
  for (size_t length = 0; length < bytes.size(); ++length) {
    const Bytes part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_EQ(read(part, message).code(), StatusCode::kCorrupt) << length;
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_NE(read(longer, message).message().find("1 more bytes"), std::string::npos);
}

TEST(StageMessageBytes, AnotherVersionIsRefusedByName) {
  Bytes bytes = bytes_of(filled_message(1));
  bytes[0] = std::byte{99};
  StageMessage message;
  const std::string why = read(bytes, message).message();
  EXPECT_NE(why.find("found 99; accepted: " + std::to_string(kStageMessageVersion)),
            std::string::npos)
      << why;
}

// A length that exceeds the message must not be trusted: it would allocate all memory.
TEST(StageMessageBytes, LengthsAreNotBelieved) {
  Bytes bytes = bytes_of(StageMessage());
  // Offset of the length of the blocks.
  const size_t length_at = sizeof(uint32_t) + sizeof(uint64_t);
  for (size_t byte = 0; byte < sizeof(uint64_t); ++byte) {
    bytes[length_at + byte] = std::byte{0xff};
  }
  StageMessage message;
  EXPECT_NE(read(bytes, message).message().find("blocks"), std::string::npos);
}

}  // namespace
}  // namespace forerun
