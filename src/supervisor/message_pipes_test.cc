#include "supervisor/message_pipes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

namespace forerun {
namespace {

using Frames = std::vector<Bytes>;
using Lines = std::vector<std::string>;

Bytes progress(const std::string& text) {
  UpMessage message;
  message.kind = UpMessage::Kind::kProgress;
  message.text = text;
  return write_message(message);
}

void print(int descriptor, const std::string& text) {
  ASSERT_EQ(write(descriptor, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

class MessagesOverAPipe : public ::testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);
    ASSERT_EQ(pipe(ends_.data()), 0);
  }
  std::array<int, 2> ends_{};
  Frames frames_;
  Lines lines_;
};

TEST_F(MessagesOverAPipe, NeitherSideWaits) {
  MessageReader reader(ends_[0]);
  MessageWriter writer(ends_[1]);
  EXPECT_TRUE(reader.read(frames_, lines_).ok());
  EXPECT_TRUE(frames_.empty());
  const Bytes large = progress(std::string(1 << 20, 'x'));  // more than a pipe can hold
  const Bytes small = progress("small");
  writer.push(large);
  writer.push(small);
  EXPECT_TRUE(writer.write().ok());
  EXPECT_FALSE(writer.is_empty());
  while (!writer.is_empty()) {
    ASSERT_TRUE(reader.read(frames_, lines_).ok());
    ASSERT_TRUE(writer.write().ok());
  }
  ASSERT_TRUE(reader.read(frames_, lines_).ok());
  EXPECT_EQ(frames_, (Frames{large, small}));
  writer.push(small);
  reader.close();
  EXPECT_EQ(writer.write().code(), StatusCode::kCancelled);
  EXPECT_TRUE(writer.is_empty());
}

TEST_F(MessagesOverAPipe, TextInFrontIsLines) {
  MessageReader reader(ends_[0]);
  print(ends_[1], "no such\r\nhost, so");
  EXPECT_TRUE(reader.read(frames_, lines_).ok());
  EXPECT_EQ(lines_, Lines{"no such"});
  MessageWriter writer(ends_[1]);
  writer.push(progress("1"));
  EXPECT_TRUE(writer.write().ok());
  EXPECT_TRUE(reader.read(frames_, lines_).ok());
  EXPECT_EQ(lines_, (Lines{"no such", "host, so"}));
  EXPECT_EQ(frames_, Frames{progress("1")});
  print(ends_[1], "x");
  EXPECT_EQ(reader.read(frames_, lines_).code(), StatusCode::kCorrupt);
  EXPECT_EQ(reader.descriptor(), -1);
}

TEST_F(MessagesOverAPipe, TheEndIsTold) {
  MessageReader reader(ends_[0]);
  print(ends_[1], "last FRR");
  close(ends_[1]);
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(reader.read(frames_, lines_).code(), StatusCode::kCancelled);
    EXPECT_EQ(lines_, Lines{"last FRR"});
    EXPECT_EQ(reader.descriptor(), -1);
  }
}

TEST_F(MessagesOverAPipe, HalfAFrameIsThrownAway) {
  MessageReader reader(ends_[0]);
  {
    MessageWriter writer(ends_[1]);
    writer.push(progress("whole"));
    Bytes half = progress("half");
    half.pop_back();
    writer.push(half);
    EXPECT_TRUE(writer.write().ok());
  }
  EXPECT_EQ(reader.read(frames_, lines_).code(), StatusCode::kCancelled);
  EXPECT_EQ(frames_, Frames{progress("whole")});
  EXPECT_TRUE(lines_.empty());
}

TEST_F(MessagesOverAPipe, AFrameThatIsTooLongIsRefused) {
  MessageReader reader(ends_[0], 20);
  MessageWriter writer(ends_[1]);
  writer.push(progress("1234"));
  writer.push(progress("12345"));
  EXPECT_TRUE(writer.write().ok());
  EXPECT_EQ(reader.read(frames_, lines_).code(), StatusCode::kCorrupt);
  EXPECT_EQ(frames_, Frames{progress("1234")});
}

}  // namespace
}  // namespace forerun
