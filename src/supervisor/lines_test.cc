#include "supervisor/lines.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

namespace forerun {
namespace {

using Lines = std::vector<std::string>;

TEST(LineCutter, CutsWhateverThePiecesAre) {
  const std::string text = "one\r\n\ntwo three\nfour";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    LineCutter cutter;
    Lines lines;
    for (size_t at = 0; at < text.size(); at += piece) {
      ASSERT_TRUE(cutter.push(std::string_view(text).substr(at, piece), lines).ok());
    }
    EXPECT_EQ(lines, (Lines{"one", "two three"}));
    EXPECT_EQ(cutter.rest(), "four");
  }
}

TEST(LineCutter, ALineThatIsTooLongIsRefused) {
  LineCutter cutter(8);
  Lines lines;
  EXPECT_TRUE(cutter.push("12345678\n1234", lines).ok());
  EXPECT_EQ(cutter.push("56789\nnext\n", lines).code(), StatusCode::kCorrupt);
  EXPECT_EQ(cutter.push("next\n", lines).code(), StatusCode::kCorrupt);
  EXPECT_EQ(lines, Lines{"12345678"});
}

TEST(LinesOverAPipe, NeitherSideWaits) {
  std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  LineReader reader(ends[0]);
  LineWriter writer(ends[1]);
  Lines lines;
  EXPECT_TRUE(reader.read(lines).ok());
  EXPECT_TRUE(lines.empty());
  const std::string large(1 << 20, 'x');  // more than a pipe holds
  writer.push(large);
  writer.push("small");
  EXPECT_TRUE(writer.write().ok());
  EXPECT_FALSE(writer.is_empty());
  while (!writer.is_empty()) {
    ASSERT_TRUE(reader.read(lines).ok());
    ASSERT_TRUE(writer.write().ok());
  }
  ASSERT_TRUE(reader.read(lines).ok());
  EXPECT_EQ(lines, (Lines{large, "small"}));
  writer.push("lost");
  reader.close();
  EXPECT_EQ(writer.write().code(), StatusCode::kCancelled);
  EXPECT_TRUE(writer.is_empty());
}

TEST(LinesOverAPipe, TheEndIsTold) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  LineReader reader(ends[0]);
  {
    LineWriter writer(ends[1]);
    writer.push("last");
    EXPECT_TRUE(writer.write().ok());
  }
  Lines lines;
  EXPECT_EQ(reader.read(lines).code(), StatusCode::kCancelled);
  EXPECT_EQ(lines, Lines{"last"});
  EXPECT_EQ(reader.descriptor(), -1);
}

}  // namespace
}  // namespace forerun
