// Tests case mappings against Python 3.11's str: fingerprints over all characters, and texts by
// hand.
#include "text/unicode_case.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/sanitized.h"
#include "text/utf8.h"

namespace forerun::text {
namespace {

// FNV-1a over the result of `map` for each character, followed by a byte 0xff. In Python:
//   for c in range(0x110000): if not 0xd800 <= c <= 0xdfff:
//     for byte in chr(c).lower().encode() + b"\xff": x = (x ^ byte) * 0x100000001b3 % 2**64
uint64_t fingerprint(std::string (*map)(std::string_view)) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text;
    append_utf8(c, text);
    for (const char byte : map(text) + "\xff") {
      hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
    }
  }
  return hash;
}

TEST(UnicodeCase, EveryCharacterIsMappedAsPythonDoes) {
  if (kSanitized) GTEST_SKIP() << "takes ten times as long over the same few loops";
  EXPECT_EQ(fingerprint(python_lower), 0x6b763109dc190e82);
  EXPECT_EQ(fingerprint(python_upper), 0x893bb44e6576b5e4);
  EXPECT_EQ(fingerprint(python_casefold), 0x86571d38fc5d4dc8);
  EXPECT_EQ(fingerprint(python_title), 0x4143cf6022f0b993);
  EXPECT_EQ(fingerprint(python_capitalize), 0x4143cf6022f0b993);
  EXPECT_EQ(fingerprint(python_swapcase), 0xf85082d8bfd5d1a5);
}

TEST(UnicodeCase, ASigmaIsFinalByItsNeighbours) {
  EXPECT_EQ(python_lower("ΑΣ"), "ας");
  EXPECT_EQ(python_lower("ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ."), "οδυσσευς σοφος.");
  EXPECT_EQ(python_lower("Σ"), "σ");
  EXPECT_EQ(python_lower("ΑΣΑ"), "ασα");
  // Marks, apostrophes and points are skipped.
  EXPECT_EQ(python_lower("Α'Σ'"), "α'ς'");
  EXPECT_EQ(python_lower("Α.Σ.Α"), "α.σ.α");
  EXPECT_EQ(python_lower("1Σ"), "1σ");
  EXPECT_EQ(python_lower("ΑΣ1"), "ας1");
  EXPECT_EQ(python_capitalize("ΣΑΣ"), "Σας");
  EXPECT_EQ(python_title("ΑΣ ΣΑΣ"), "Ας Σας");
  EXPECT_EQ(python_swapcase("ας ΑΣ"), "ΑΣ ας");
  EXPECT_EQ(python_casefold("ΑΣς"), "ασσ");
}

TEST(UnicodeCase, OneCharacterBecomesSeveral) {
  EXPECT_EQ(python_upper("straße ŉ ﬃ"), "STRASSE ʼN FFI");
  EXPECT_EQ(python_title("ßa ǆ ﬁn"), "Ssa ǅ Fin");
  EXPECT_EQ(python_capitalize("ßA"), "Ssa");
  EXPECT_EQ(python_casefold("Maße ﬀ"), "masse ff");
  EXPECT_EQ(python_lower("İ"), "i̇");
  EXPECT_EQ(python_title("it's ẞ1a"), "It'S ẞ1A");
}

int count_of(bool (*is)(std::string_view), const std::string& prefix) {
  int count = 0;
  for (char32_t c = 0; c < 0x30000; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text = prefix;
    append_utf8(c, text);
    count += is(text);
  }
  return count;
}

TEST(UnicodeCase, LowerAndUpperAreToldAsPythonDoes) {
  EXPECT_TRUE(python_islower("ß1ª"));
  EXPECT_FALSE(python_islower("1"));
  EXPECT_FALSE(python_islower(""));
  EXPECT_FALSE(python_islower("aǅ"));
  EXPECT_FALSE(python_isupper("Aǅ"));
  EXPECT_TRUE(python_isupper("ÀΣ 1"));
  // Counts over all characters below U+30000, alone and after a letter.
  EXPECT_EQ(count_of(python_islower, "x"), 192578);
  EXPECT_EQ(count_of(python_isupper, "X"), 192058);
  EXPECT_EQ(count_of(python_islower, ""), 2471);
  EXPECT_EQ(count_of(python_isupper, ""), 1951);
}

}  // namespace
}  // namespace forerun::text
