#include "supervisor/lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
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

TEST(LinesOverAPipe, NobodyWaitsAndTheEndIsTold) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  LineReader reader(ends[0]);
  Lines lines;
  EXPECT_TRUE(reader.read(lines).ok());
  EXPECT_TRUE(lines.empty());
  const std::string text = "first\nlast";
  ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_TRUE(reader.read(lines).ok());
  EXPECT_EQ(lines, Lines{"first"});
  close(ends[1]);
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(reader.read(lines).code(), StatusCode::kCancelled);
    EXPECT_EQ(lines, (Lines{"first", "last"}));
    EXPECT_EQ(reader.descriptor(), -1);
  }
}

}  // namespace
}  // namespace forerun
