// Tests UTF-8, regular expressions and their translation, and normalization.
#include "text/unicode.h"

#include <gtest/gtest.h>

#include <string>

#include "text/regex.h"
#include "text/utf8.h"

namespace forerun::text {
namespace {

TEST(Utf8, IllFormedSubpartsAreMaximal) {
  const std::string mark = "\xef\xbf\xbd";
  EXPECT_EQ(replace_ill_formed("a\xff"
                               "b"),
            "a" + mark + "b");
  EXPECT_EQ(replace_ill_formed("\xf0\x9f\x98"), mark);  // one truncated character
  EXPECT_EQ(replace_ill_formed("\xf0\x9fz"), mark + "z");
  EXPECT_EQ(replace_ill_formed("\xc0\x80"), mark + mark);             // overlong
  EXPECT_EQ(replace_ill_formed("\xed\xa0\x80"), mark + mark + mark);  // a surrogate
  EXPECT_EQ(replace_ill_formed("\xf4\x90\x80\x80"), mark + mark + mark + mark);
  EXPECT_EQ(replace_ill_formed("\xe6\xbc\xa2"), "\xe6\xbc\xa2");
  EXPECT_TRUE(is_incomplete_character("\xe6\xbc"));
  EXPECT_FALSE(is_incomplete_character("\xe6\xbc\xa2"));
  EXPECT_FALSE(is_incomplete_character("\xe0\x80"));
}

TEST(Utf8, EveryCodePointSurvives) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text;
    append_utf8(c, text);
    const CodePoint first = first_code_point(text);
    ASSERT_TRUE(first.well_formed);
    ASSERT_EQ(first.value, c);
    ASSERT_EQ(first.len_bytes, text.size());
    ASSERT_EQ(last_code_point("x" + text).value, c);
  }
}

TEST(Normalization, FormsAgreeWithThemselves) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text;
    append_utf8(c, text);
    const std::string nfc = normalize(text, NormalForm::kNfc);
    const std::string nfd = normalize(text, NormalForm::kNfd);
    ASSERT_EQ(normalize(nfd, NormalForm::kNfc), nfc) << static_cast<uint32_t>(c);
    ASSERT_EQ(normalize(nfc, NormalForm::kNfd), nfd) << static_cast<uint32_t>(c);
    if (is_certainly_nfc(text)) {
      ASSERT_EQ(nfc, text) << static_cast<uint32_t>(c);
    }
  }
  // Marks are ordered by class before they compose.
  EXPECT_EQ(normalize("q\xcc\x87\xcc\xa3", NormalForm::kNfc), "q\xcc\xa3\xcc\x87");
  EXPECT_EQ(normalize("a\xcc\xa3\xcc\x82", NormalForm::kNfc), "\xe1\xba\xad");
}

TEST(Regex, SpeaksOniguruma) {
  Regex::Matcher matcher;
  const auto matches = [&](const std::string& pattern, const std::string& text) {
    const auto regex = Regex::compile(pattern);
    EXPECT_TRUE(regex.ok()) << regex.status().message();
    const auto found = regex->find(text, 0, matcher);
    EXPECT_TRUE(found.ok());
    return found.ok() && found->has_value() && (*found)->begin == 0 && (*found)->end == text.size();
  };
  EXPECT_TRUE(matches("\\s", "\xe3\x80\x80"));   // ideographic space
  EXPECT_FALSE(matches("\\s", "\xe1\xa0\x8e"));  // U+180E is not a space since Unicode 6.3
  EXPECT_TRUE(matches("\\S", "\xe1\xa0\x8e"));
  EXPECT_TRUE(matches("[^\\s]", "\xe1\xa0\x8e"));
  EXPECT_TRUE(matches("(?i:'S|'LL)", "'ll"));
  EXPECT_TRUE(matches("\\w+", "a\xcc\x81_\xe6\xbc\xa2"));  // marks are word characters
  EXPECT_TRUE(matches("\\v", "\x0b"));
  EXPECT_FALSE(matches("\\v", "\n"));
  // Besides letters, marks, decimal digits and connectors, only Latin-1's superscripts and
  // fractions are word characters, and only outside a class.
  const std::string circled = "\xe2\x91\xa0";
  EXPECT_FALSE(matches("\\w", circled));
  EXPECT_TRUE(matches("\\W", circled));
  EXPECT_TRUE(matches("\\w", "\xc2\xb2"));
  EXPECT_FALSE(matches("[\\w]", "\xc2\xb2"));
  EXPECT_FALSE(matches("[[:word:]]", "\xc2\xb2"));
  EXPECT_TRUE(matches("a\\b" + circled + "\\Bx?", "a" + circled));
  EXPECT_FALSE(matches("a\\b.", "a\xc2\xb2"));
  EXPECT_TRUE(matches("a\\B.", "a\xcc\x81"));
  EXPECT_TRUE(matches("[\\b]", "\b"));
  EXPECT_TRUE(matches("[[:alpha:]]", "\xe2\x92\xb6"));  // a circled letter
  EXPECT_TRUE(matches("[[:punct:]]", "\xe2\x82\xac"));  // the euro sign
  // \p{Han} has only the script's own characters, not shared ones such as the ideographic full
  // stop.
  EXPECT_TRUE(matches("\\p{Han}+", "\xe6\xbc\xa2\xe5\xad\x97"));
  EXPECT_TRUE(matches("[^\\p{Han}]", "\xe3\x80\x82"));
  EXPECT_TRUE(matches("\\P{Han}", "\xe3\x80\x82"));
  EXPECT_TRUE(matches("\\p{^Han}", "\xe3\x80\x82"));
  EXPECT_FALSE(matches("\\P{Han}", "\xe6\xbc\xa2"));
  EXPECT_TRUE(matches("\\p{Lu}\\pL", "Ab"));
  for (const char* refused : {"[\\W]", "[[:graph:]]", "[[:^alpha:]]", "\\h", "[a[b]]", "[a&&b]",
                              "(?m:.)", "(*ACCEPT)", "[a", "\\"}) {
    EXPECT_FALSE(Regex::compile(refused).ok()) << refused;
  }
}

}  // namespace
}  // namespace forerun::text
