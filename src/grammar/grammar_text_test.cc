#include "grammar/grammar_text.h"

#include <gtest/gtest.h>

#include <string>

#include "grammar/grammar.h"
#include "grammar/testing.h"

namespace forerun::grammar {
namespace {

Grammar compiled_text(const std::string& text) {
  Result<Grammar> grammar = Grammar::from_text(text);
  if (!grammar.ok()) ADD_FAILURE() << grammar.status().message();
  return grammar.ok() ? *grammar : *Grammar::from_text("root ::= \"?\"");
}

std::string text_refusal(const std::string& text, const GrammarLimits& limits = {}) {
  const Result<Grammar> grammar = Grammar::from_text(text, limits);
  return grammar.ok() ? "accepted" : grammar.status().message();
}

#define EXPECT_REFUSED(text, part) \
  EXPECT_NE(text_refusal(text).find(part), std::string::npos) << "said: " << text_refusal(text)

TEST(GrammarText, LiteralsAlternativesAndSequences) {
  const Grammar grammar = compiled_text("root ::= \"yes\" | \"no\" \" \"? \"way\"\n");
  EXPECT_TRUE(matches(grammar, "yes"));
  EXPECT_TRUE(matches(grammar, "noway"));
  EXPECT_TRUE(matches(grammar, "no way"));
  EXPECT_FALSE(matches(grammar, "no"));
  EXPECT_FALSE(matches(grammar, ""));
  EXPECT_FALSE(matches(grammar, "yesno"));
}

TEST(GrammarText, RepetitionsAreCounted) {
  const Grammar grammar =
      compiled_text("root ::= \"a\"* \"b\"+ \"c\"{2} \"d\"{1,} \"e\"{0,2} \"f\"?");
  EXPECT_TRUE(matches(grammar, "bccd"));
  EXPECT_TRUE(matches(grammar, "aaabbccdddeef"));
  EXPECT_FALSE(matches(grammar, "bcccd"));
  EXPECT_FALSE(matches(grammar, "bccdeee"));
  EXPECT_FALSE(matches(grammar, "bcc"));
}

TEST(GrammarText, ManyRepetitionsOfACharacterAreCountedWithoutStates) {
  const Grammar grammar = compiled_text("root ::= \"<\" [a-z\u00e4]{3,5000} \">\" | \"!\" .{20}");
  EXPECT_LT(grammar.node_count(), 60u);
  for (const size_t count : {2u, 3u, 4u, 4999u, 5000u, 5001u}) {
    std::string word;
    for (size_t i = 0; i < count; ++i) word += i % 3 == 0 ? "\u00e4" : "k";
    EXPECT_EQ(matches(grammar, "<" + word + ">"), count >= 3 && count <= 5000) << count;
  }
  EXPECT_TRUE(matches(grammar, "!" + std::string(20, '\n')));
  EXPECT_FALSE(matches(grammar, "!" + std::string(19, 'x')));
  EXPECT_FALSE(matches(grammar, "!" + std::string(21, 'x')));
}

TEST(GrammarText, ACountThatIsReachedEndsTheText) {
  GrammarState state = compiled_text("root ::= [a-z]{20,30}").start();
  ASSERT_TRUE(state.accept(std::string(29, 'x')));
  EXPECT_TRUE(state.is_complete());
  EXPECT_TRUE(state.can_continue());
  ASSERT_TRUE(state.accept("x"));
  EXPECT_TRUE(state.is_complete());
  EXPECT_FALSE(state.can_continue());
}

TEST(GrammarText, ClassesAreOfCharacters) {
  const Grammar grammar = compiled_text(R"(root ::= [a-c\u4e00-\u9fff] [^"\\\x00-\x1f] .)");
  EXPECT_TRUE(matches(grammar, "b\u6f22\U0001f600"));
  EXPECT_TRUE(matches(grammar, "\u6f22 \n"));
  EXPECT_FALSE(matches(grammar, "d.."));
  EXPECT_FALSE(matches(grammar, "a\"."));
  EXPECT_FALSE(matches(grammar, "a.\xed\xa0\x80")) << "a surrogate";
  EXPECT_FALSE(matches(grammar, "a.\xc0\xaf")) << "an overlong form";
}

TEST(GrammarText, CommentsLinesAndGroups) {
  const Grammar grammar = compiled_text(
      "# a list\r\nroot ::= \"[\" ( # of items\n  item\n  (\",\" item)*\n)? \"]\"\r\n"
      "item ::= \"x\" |\n  \"y\" # two kinds\n\n");
  EXPECT_TRUE(matches(grammar, "[]"));
  EXPECT_TRUE(matches(grammar, "[x,y,x]"));
  EXPECT_FALSE(matches(grammar, "[x,]"));
}

TEST(GrammarText, LinesAsPublishedGrammarsBreakThem) {
  const Grammar grammar = compiled_text(R"(
root ::= object
value ::= object | text | ("true" | "null") ws   # in parentheses
object ::=
  "{" ws (
            text ":" ws value
    ("," ws text ":" ws value)*
  )? "}" ws
text ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
ws ::= | " " | "\n" [ \t]{0,20}
)");
  EXPECT_TRUE(matches(grammar, "{ \"a\": true,\n\t\"b\\n\": {}}\n"));
  EXPECT_FALSE(matches(grammar, "{\"a\":  true}"));
  const Grammar bars = compiled_text("root ::= \"a\"\n  # or\n  | \"b\"\n\n  | c\nc ::= \"c\"");
  for (const char* text : {"a", "b", "c"}) EXPECT_TRUE(matches(bars, text)) << text;
}

TEST(GrammarText, RecursionNestsAsDeepAsTheText) {
  const Grammar grammar = compiled_text("root ::= value\nvalue ::= \"(\" value* \")\" | \"x\"\n");
  const std::string deep = std::string(3000, '(') + "x" + std::string(3000, ')');
  GrammarState state = grammar.start();
  EXPECT_TRUE(state.accept(deep));
  EXPECT_TRUE(state.is_complete());
  EXPECT_FALSE(state.can_continue());
  EXPECT_TRUE(matches(grammar, "(x(x)())"));
  EXPECT_FALSE(matches(grammar, "(x))"));
}

TEST(GrammarText, RecursionAtTheEndKeepsTheStateAsItIs) {
  const Grammar grammar = compiled_text("root ::= \"a\" root | \"b\"");
  GrammarState once = grammar.start();
  ASSERT_TRUE(once.accept("aa"));
  GrammarState often = once;
  ASSERT_TRUE(often.accept(std::string(1000, 'a')));
  EXPECT_EQ(once, often);
}

TEST(GrammarText, AmbiguityIsFollowedInAllWays) {
  const Grammar palindromes = compiled_text(
      "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\" | \"b\" | \"aa\" | \"bb\"");
  EXPECT_TRUE(matches(palindromes, "abbabba"));
  EXPECT_TRUE(matches(palindromes, "abba"));
  EXPECT_FALSE(matches(palindromes, "abab"));
  const Grammar many = compiled_text("root ::= s\ns ::= \"a\" s s | \"a\" s | \"a\"");
  EXPECT_TRUE(matches(many, std::string(60, 'a')));
}

TEST(GrammarText, RulesThatReadNothing) {
  const Grammar grammar =
      compiled_text("root ::= ws a ws b ws\nws ::= \" \"*\na ::= \"a\"?\nb ::= a a");
  for (const char* text : {"", " ", "a", "aa", "aaa", " a a a "}) {
    const std::string t = text;
    EXPECT_EQ(matches(grammar, t), t != " a a a ") << t;
  }
  const Grammar empty = compiled_text("root ::= \"\"");
  EXPECT_TRUE(empty.start().is_complete());
  EXPECT_FALSE(empty.start().can_continue());
}

TEST(GrammarText, StatesAreValues) {
  const Grammar grammar = compiled_text("root ::= \"[\" root* \"]\"");
  const GrammarState start = grammar.start();
  GrammarState state = start;
  ASSERT_TRUE(state.accept("[["));
  GrammarState other = state;
  EXPECT_FALSE(other.accept("]x"));
  EXPECT_EQ(other, state) << "a refused text leaves the state";
  EXPECT_TRUE(other.accept("[]"));
  EXPECT_EQ(other, state) << "what was opened and closed leaves no trace";
  EXPECT_FALSE(state == start);
  EXPECT_TRUE(state.accept("]]"));
  EXPECT_TRUE(state.is_complete());
  EXPECT_FALSE(state.can_continue());
  EXPECT_EQ(grammar.start(), start);
}

TEST(GrammarText, WhatIsWrongIsSaidWithItsPlace) {
  EXPECT_REFUSED("root ::= \"a\nb\"", "line 1, column 12");
  EXPECT_REFUSED("root ::= [a-", "found the end of the text");
  EXPECT_REFUSED("root ::= [z-a]", "backwards");
  EXPECT_REFUSED("root ::= other", "\"other\"");
  EXPECT_REFUSED("start ::= \"x\"", "no rule \"root\"");
  EXPECT_REFUSED("root = \"x\"", "\"::=\"");
  EXPECT_REFUSED("root ::= \"x\"\nroot ::= \"y\"", "line 2, column 1");
  EXPECT_REFUSED("root ::= \"\\q\"", "\\q");
  EXPECT_REFUSED("root ::= \"\\ud800\"", "surrogates");
  EXPECT_REFUSED("root ::= (\"x\"", "\")\"");
  EXPECT_REFUSED("root ::= \"x\"{3,2}", "n below m");
  EXPECT_REFUSED("root ::= <think>", "token");
  EXPECT_REFUSED("root ::= \"x\" )", "found \")\"");
  EXPECT_REFUSED("root ::= \"\xff\"", "UTF-8");
  EXPECT_REFUSED("", "root");
}

TEST(GrammarText, LeftRecursionAndEndlessTextsAreRefused) {
  EXPECT_REFUSED("root ::= root \"a\" | \"a\"", "root -> root");
  EXPECT_REFUSED("root ::= a\na ::= ws b \"x\" | \"y\"\nb ::= a \"zzzzzzzzz\"\nws ::= \" \"*",
                 "calls itself");
  EXPECT_REFUSED("root ::= \"a\" root", "no finite text");
  EXPECT_REFUSED("root ::= []", "no finite text");
  EXPECT_TRUE(matches(compiled_text("root ::= \"a\" | \"b\" dead\ndead ::= \"c\" dead"), "a"));
  GrammarState state = compiled_text("root ::= \"a\" | \"b\" dead\ndead ::= \"c\" dead").start();
  EXPECT_FALSE(state.accept("b")) << "a way without an end is no way";
}

TEST(GrammarText, LimitsAreNamed) {
  GrammarLimits limits;
  limits.max_text_bytes = 10;
  EXPECT_NE(text_refusal("root ::= \"aaaa\"", limits).find("10"), std::string::npos);
  EXPECT_REFUSED("root ::= ((\"ab\"{900}){900}){900}", "states");
  EXPECT_REFUSED("root ::= [ab]* \"a\" ([ab] [ab]){12}", "states");
  EXPECT_REFUSED("root ::= \"x\"{200000}", "100000");
  EXPECT_REFUSED("root ::= " + std::string(100, '(') + "\"x\"" + std::string(100, ')'), "64");
  limits = {};
  limits.max_work = 1000;
  EXPECT_NE(text_refusal("root ::= \"a\"{900}", limits).find("steps"), std::string::npos);
}

}  // namespace
}  // namespace forerun::grammar
