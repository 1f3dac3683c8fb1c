#include "wire/frame_cutter.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "wire/frame.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

Bytes frame_of(const std::string& text) {
  Bytes frame = begin_frame({1, 0});
  append_value(frame, text);
  end_frame(frame);
  return frame;
}

Bytes bytes_of(std::string_view text) {
  Bytes bytes;
  for (const char letter : text) bytes.push_back(static_cast<std::byte>(letter));
  return bytes;
}

Bytes joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(FrameCutter, CutsWhateverThePiecesAre) {
  const std::vector<Bytes> sent = {frame_of("one"), frame_of(""), frame_of(std::string(500, 'x'))};
  const std::string front = "text\nFRR and FRFRR";
  const Bytes stream = joined({bytes_of(front), joined(sent)});
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameCutter cutter(1000);
    std::vector<Bytes> frames;
    std::string text;
    for (size_t at = 0; at < stream.size(); at += piece) {
      const auto bytes = std::span(stream).subspan(at, std::min(piece, stream.size() - at));
      ASSERT_TRUE(cutter.push(bytes, frames, text).ok());
    }
    EXPECT_EQ(frames, sent);
    EXPECT_EQ(text, front);
    EXPECT_TRUE(cutter.has_seen_frame());
  }
}

TEST(FrameCutter, TextWithoutAFrameComesInWhole) {
  FrameCutter cutter(1000);
  std::vector<Bytes> frames;
  std::string text;
  ASSERT_TRUE(cutter.push(bytes_of("no program\nFRR"), frames, text).ok());
  EXPECT_EQ(text, "no program\n");
  EXPECT_EQ(cutter.held_text(), "FRR");
  EXPECT_TRUE(frames.empty());
  EXPECT_FALSE(cutter.has_seen_frame());
}

TEST(FrameCutter, WhatIsNoFrameIsRefusedAtOnce) {
  const auto why = [](const Bytes& behind) {
    FrameCutter cutter(100);
    std::vector<Bytes> frames;
    std::string text;
    EXPECT_TRUE(cutter.push(frame_of("one"), frames, text).ok());
    const Status status = cutter.push(behind, frames, text);
    EXPECT_EQ(cutter.push(frame_of("two"), frames, text).message(), status.message());
    EXPECT_EQ(frames.size(), 1u);
    EXPECT_EQ(text, "");
    return status.message();
  };
  EXPECT_NE(why(bytes_of("m")).find("not a message of Forerun"), std::string::npos);
  EXPECT_NE(why(bytes_of("FRRM")).find("not a message of Forerun"), std::string::npos);
  EXPECT_NE(why(frame_of(std::string(101, 'x'))).find("accepted: up to 100"), std::string::npos);
  Bytes other = frame_of("");
  other[4] = std::byte{99};
  EXPECT_NE(why(other).find("version: found 99"), std::string::npos);
}

// A length that exceeds the received bytes allocates no memory.
TEST(FrameCutter, LengthsAreNotBelieved) {
  Bytes frame = frame_of("one");
  for (size_t at = kFrameHeaderBytes - 8; at < kFrameHeaderBytes; ++at) {
    frame[at] = std::byte{0xff};
  }
  FrameCutter cutter(size_t{1} << 40);
  std::vector<Bytes> frames;
  std::string text;
  EXPECT_EQ(cutter.push(frame, frames, text).code(), StatusCode::kCorrupt);
  frame[kFrameHeaderBytes - 1] = frame[kFrameHeaderBytes - 2] = std::byte{0};
  frame[kFrameHeaderBytes - 3] = std::byte{0};
  FrameCutter waiting(size_t{1} << 40);
  EXPECT_TRUE(waiting.push(frame, frames, text).ok());
  EXPECT_TRUE(frames.empty());
}

}  // namespace
}  // namespace forerun
