#include "grammar/regex_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/testing.h"

namespace forerun::grammar {
namespace {

Grammar compiled_regex(const std::string& regex) {
  Result<Grammar> grammar = Grammar::from_regex(regex);
  if (!grammar.ok()) ADD_FAILURE() << regex << ": " << grammar.status().message();
  return grammar.ok() ? *grammar : *Grammar::from_regex("\\?");
}

std::string regex_refusal(const std::string& regex) {
  const Result<Grammar> grammar = Grammar::from_regex(regex);
  return grammar.ok() ? "accepted" : grammar.status().message();
}

TEST(RegexRules, TheWholeTextMatches) {
  const Grammar date = compiled_regex(R"(\d{4}-\d{2}(-\d{2})?)");
  EXPECT_TRUE(matches(date, "2026-11"));
  EXPECT_TRUE(matches(date, "2026-11-24"));
  EXPECT_FALSE(matches(date, "on 2026-11-24"));
  EXPECT_FALSE(matches(date, "2026-11-24 "));
  EXPECT_FALSE(matches(date, "2026-11-"));
  // Alternatives apply to the whole text, and anchors change nothing.
  const Grammar choice = compiled_regex("a|^b+$|");
  for (const char* const text : {"a", "b", "bbb", ""}) EXPECT_TRUE(matches(choice, text)) << text;
  for (const char* const text : {"ab", "xb", "aa"}) EXPECT_FALSE(matches(choice, text)) << text;
  EXPECT_TRUE(matches(compiled_regex("[äöü]+.😀"), "öäx😀"));
  EXPECT_TRUE(matches(compiled_regex("\"\\\\\""), "\"\\\""));
  EXPECT_FALSE(matches(compiled_regex("."), "\n"));
}

TEST(RegexRules, WhatIsRefusedIsNamedByItsPlace) {
  // A bracket of its own does not close the one around it.
  EXPECT_NE(regex_refusal("a)|(b").find("regex"), std::string::npos);
  EXPECT_NE(regex_refusal("a)|(b").find("1"), std::string::npos) << regex_refusal("a)|(b");
  EXPECT_NE(regex_refusal("(a").find("regex"), std::string::npos);
  EXPECT_NE(regex_refusal("(?=a)b"), "accepted");
  EXPECT_NE(regex_refusal("(a)\\1"), "accepted");
  EXPECT_NE(regex_refusal("a^b").find("matches no text"), std::string::npos)
      << regex_refusal("a^b");
  EXPECT_NE(regex_refusal("((a{1000}){1000}){1000}"), "accepted");
}

// Compares with std::regex on strings over a two-letter alphabet.
TEST(RegexRules, EqualTheStandardLibrarys) {
  std::mt19937 random(3);
  const std::vector<std::string> parts = {"a", "b", "(ab|b)", "[ab]", "a*", "b+", "(a|bb)?", "."};
  int matched = 0;
  for (int round = 0; round < 60; ++round) {
    std::string pattern;
    for (size_t count = 1 + random() % 4; count > 0; --count) {
      pattern += parts[random() % parts.size()];
      if (random() % 5 == 0) pattern += "|";
    }
    const Grammar grammar = compiled_regex(pattern);
    const std::regex expected(pattern);
    for (uint32_t length = 0; length <= 5; ++length) {
      for (uint32_t bits = 0; bits < 1u << length; ++bits) {
        std::string text;
        for (uint32_t at = 0; at < length; ++at) text += (bits >> at & 1u) != 0 ? 'b' : 'a';
        const bool is_match = std::regex_match(text, expected);
        matched += is_match ? 1 : 0;
        EXPECT_EQ(matches(grammar, text), is_match) << pattern << " on " << text;
      }
    }
  }
  EXPECT_GT(matched, 200);
}

}  // namespace
}  // namespace forerun::grammar
