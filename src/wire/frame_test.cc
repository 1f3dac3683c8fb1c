#include "wire/frame.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

constexpr uint8_t kLastKind = 10;

TEST(Frame, SaysWhatItIs) {
  Bytes frame = begin_frame({7, 77});
  append_value(frame, int32_t{5});
  end_frame(frame);
  const auto header = read_frame(frame, kLastKind);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->kind, 7);
  EXPECT_EQ(header->generation, 77u);
  const auto payload = frame_payload_bytes(frame);
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(*payload, 4u);

  const auto refused = [&frame](size_t at, uint8_t value) {
    Bytes spoiled = frame;
    spoiled[at] = std::byte{value};
    return read_frame(spoiled, kLastKind).status().message();
  };
  EXPECT_NE(refused(0, 0).find("not a message of Forerun"), std::string::npos);
  EXPECT_NE(refused(4, 9).find("version: found 9; accepted: " + std::to_string(kFrameVersion)),
            std::string::npos);
  EXPECT_NE(refused(6, 200).find("kind: found 200; accepted: 0 to 10"), std::string::npos);
  EXPECT_NE(refused(15, 5).find("length: found 5; accepted: 4, the bytes that follow"),
            std::string::npos);
  for (size_t length = 0; length < frame.size(); ++length) {
    const Bytes part(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_EQ(read_frame(part, kLastKind).status().code(), StatusCode::kCorrupt) << length;
  }
}

}  // namespace
}  // namespace forerun
