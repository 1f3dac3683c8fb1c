#include "base/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "base/terminal_text.h"

namespace forerun {
namespace {

TEST(Printable, WhatATerminalWouldObeyIsEscaped) {
  EXPECT_EQ(printable("a\nb\tc\x1b[31m\x7f"), "a\\x0ab\\x09c\\x1b[31m\\x7f");
  EXPECT_EQ(printable("say \"a\\b\""), "say \\\"a\\\\b\\\"");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");                               // CSI as one character
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // right-to-left override
  EXPECT_EQ(in_quotes("漢字 é 😀"), "\"漢字 é 😀\"");
}

TEST(Printable, BytesThatAreNoUtf8AreEscaped) {
  EXPECT_EQ(printable("a\xff"
                      "b"),
            "a\\xffb");
  EXPECT_EQ(printable("\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xe6\xbc"),
            "\\xc0\\x80\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80\\xe6\\xbc");
}

TEST(Printable, LongTextsAreCutBetweenCharacters) {
  EXPECT_EQ(printable(std::string(120, 'x')), std::string(120, 'x'));
  EXPECT_EQ(printable(std::string(121, 'x')), std::string(120, 'x') + "...");
  EXPECT_EQ(printable(std::string(119, 'x') + "éé"), std::string(119, 'x') + "...");
  const std::string broken = printable(std::string(500, '\x80'));
  EXPECT_EQ(broken.size(), 120 * 4 + 3);
}

TEST(TerminalText, KeepsLinesAndWhatIsLong) {
  EXPECT_EQ(terminal_text("a \"b\"\n\tc\\d\r\x1b\xff"), "a \"b\"\n\tc\\d\\x0d\\x1b\\xff");
  EXPECT_EQ(terminal_text(std::string(500, 'x')), std::string(500, 'x'));
}

}  // namespace
}  // namespace forerun
