#include "grammar/token_masks.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "grammar/testing.h"

namespace forerun::grammar {
namespace {

const char kJsonText[] = R"(
root   ::= object
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( pair ("," ws pair)* ws )? "}"
pair   ::= string ":" ws value
array  ::= "[" ws ( value ("," ws value)* ws )? "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws     ::= [ \n]{0,3}
)";

const char kSample[] =
    "The quick brown fox said: \"na\u00efve caf\u00e9\", \u6f22\u5b57 \U0001f600 and {\"a\": [1, "
    "2.5e3, null]}, {\"name\": \"x\\n\", \"b\":true}\n  \"list\": [\n    12,\n    -7\n  ]";

std::vector<Grammar> grammars() {
  const char* texts[] = {
      kJsonText,
      "root ::= \"<\" [a-z ]{3,40} \">\" | [A-Z\u00e4-\u00fc]{18,} \"!\" | .{0,20}",
      "root ::= line+\nline ::= word (\" \" word)* \"\\n\"\nword ::= [a-z]+ | [0-9]{1,3} | "
      "\"\u6f22\"+",
      "root ::= s\ns ::= \"a\" s s \"b\" | \"a\" s | \"ab\" | \" \" s",
      "root ::= ([^\\n]{5,7} \"\\n\" | \"{\" root \"}\")*",
  };
  std::vector<Grammar> all;
  for (const char* text : texts) {
    Result<Grammar> grammar = Grammar::from_text(text);
    EXPECT_TRUE(grammar.ok()) << grammar.status().message();
    if (grammar.ok()) all.push_back(*grammar);
  }
  const char* schemas[] = {
      R"({"type":"array","items":{"type":"string","minLength":2,"maxLength":7},"maxItems":3})",
      R"({"type":"object","properties":{"a":{"type":"string","maxLength":20},"b":{"type":"integer"},
          "c":{"type":"string","pattern":"^[a-z ]+$"}},"additionalProperties":{"type":"number"}})",
      R"({"type":"array","items":{"anyOf":[{"type":"null"},{"$ref":"#"}]},"minItems":1})",
      "{}",
  };
  for (const char* schema : schemas) {
    Result<Grammar> grammar = Grammar::from_json_schema(schema);
    EXPECT_TRUE(grammar.ok()) << grammar.status().message();
    if (grammar.ok()) all.push_back(*grammar);
  }
  return all;
}

// Compares masks with brute force along random walks; returns how many states were compared.
int compare_on_walks(const Grammar& grammar, const VocabularyTrie& vocabulary, TokenMasks& masks,
                     std::mt19937& random, int walks, int steps) {
  int compared = 0;
  std::vector<uint32_t> mask(vocabulary.mask_words() + 2, ~0u);
  for (int walk = 0; walk < walks; ++walk) {
    GrammarState state = grammar.start();
    for (int step = 0; step < steps; ++step) {
      const bool may_end = masks.write(state, mask);
      EXPECT_EQ(may_end, state.is_complete());
      std::vector<uint32_t> expected = brute_force_mask(state, vocabulary);
      expected.resize(mask.size(), 0);
      ++compared;
      EXPECT_EQ(mask, expected);
      if (mask != expected) return compared;
      std::vector<int32_t> ids;
      for (int32_t id = 0; id < vocabulary.vocab_size(); ++id) {
        if ((mask[static_cast<size_t>(id) / 32] >> (id % 32)) & 1) ids.push_back(id);
      }
      if (ids.empty()) break;
      EXPECT_TRUE(state.accept(vocabulary.token(ids[random() % ids.size()])));
    }
  }
  return compared;
}

TEST(TokenMasks, EveryBitIsWhatTheStateSays) {
  const std::vector<std::string> tokens = synthetic_tokens(kSample, 1200, 7);
  const auto vocabulary = std::make_shared<const VocabularyTrie>(tokens);
  std::mt19937 random(11);
  TokenMasks masks(vocabulary);
  int compared = 0;
  for (const Grammar& grammar : grammars()) {
    compared += compare_on_walks(grammar, *vocabulary, masks, random, 6, 25);
  }
  EXPECT_GT(compared, 200);
}

TEST(TokenMasks, EveryBitIsWhatTheStateSaysWithoutRoomToKeepAnything) {
  const std::vector<std::string> tokens = synthetic_tokens(kSample, 300, 8);
  const auto vocabulary = std::make_shared<const VocabularyTrie>(tokens);
  std::mt19937 random(12);
  TokenMasks masks(vocabulary, {.node_bytes = 1, .state_bytes = 1});
  for (const Grammar& grammar : grammars()) {
    compare_on_walks(grammar, *vocabulary, masks, random, 2, 15);
  }
}

TEST(TokenMasks, TheDemoVocabulary) {
  const std::string file = FORERUN_SOURCE_DIR "/models/demo-target/tokenizer.json";
  Result<Tokenizer> tokenizer = Tokenizer::load(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const auto vocabulary = std::make_shared<const VocabularyTrie>(*tokenizer);
  EXPECT_EQ(vocabulary->vocab_size(), tokenizer->vocab_size());
  std::mt19937 random(13);
  TokenMasks masks(vocabulary);
  const std::vector<Grammar> all = grammars();
  EXPECT_TRUE(masks.prepare(all[0]).ok());
  compare_on_walks(all[0], *vocabulary, masks, random, 2, 12);
  compare_on_walks(all[1], *vocabulary, masks, random, 2, 6);
}

TEST(TokenMasks, SpecialTokensAreNeverAllowed) {
  const std::string file = FORERUN_SOURCE_DIR "/models/demo-target/tokenizer.json";
  Result<Tokenizer> tokenizer = Tokenizer::load(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const auto vocabulary = std::make_shared<const VocabularyTrie>(*tokenizer);
  TokenMasks masks(vocabulary);
  std::vector<uint32_t> mask(vocabulary->mask_words());
  EXPECT_TRUE(masks.write(Grammar::from_text("root ::= .*")->start(), mask));
  int special = 0;
  for (int32_t id = 0; id < vocabulary->vocab_size(); ++id) {
    if (!tokenizer->is_special(id)) continue;
    ++special;
    EXPECT_EQ((mask[static_cast<size_t>(id) / 32] >> (id % 32)) & 1, 0u);
  }
  EXPECT_GT(special, 0);
}

TEST(TokenMasks, GrammarsThatReadATextInTooManyWaysAreRefused) {
  // Any of 40 rules can begin at every letter, each in two places.
  std::string any, rules = "root ::= r0\n";
  for (int i = 0; i < 40; ++i) any += (i ? " | r" : "r") + std::to_string(i);
  for (int i = 0; i < 40; ++i) {
    rules += "r" + std::to_string(i) + " ::= [a-z ] (" + any + ") (" + any + ")? | [a-z ]\n";
  }
  const Result<Grammar> grammar = Grammar::from_text(rules);
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  TokenMasks masks(std::make_shared<const VocabularyTrie>(synthetic_tokens(kSample, 500, 9)),
                   {.node_steps = 20'000});
  const Status status = masks.prepare(*grammar).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("so many ways"), std::string::npos) << status.message();
  // Requests for masks are still answered within the limits.
  GrammarState state = grammar->start();
  for (int i = 0; i < 3 && state.accept("abcdefgh"); ++i) {
    std::vector<uint32_t> mask(masks.vocabulary().mask_words());
    masks.write(state, mask);
  }
}

// Tests grammars that read a text in many ways: their masks agree with brute force, and cost no
// more after a long text than after a short one.
TEST(TokenMasks, TextsThatAreReadInManyWaysStayCheap) {
  const auto vocabulary =
      std::make_shared<const VocabularyTrie>(synthetic_tokens(kSample, 250, 14));
  std::mt19937 random(15);
  for (const GreedyGrammar& greedy : greedy_grammars()) {
    SCOPED_TRACE(greedy.name);
    if (greedy.always_costly) continue;
    const Result<Grammar> grammar = Grammar::from_text(greedy.text);
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    TokenMasks masks(vocabulary);
    const Result<uint32_t> prepared = masks.prepare(*grammar);
    ASSERT_TRUE(prepared.ok()) << prepared.status().message();
    EXPECT_GT(compare_on_walks(*grammar, *vocabulary, masks, random, 1, 10), 2);
    GrammarState state = grammar->start();
    uint64_t early = 0, late = 0;
    for (int i = 0; i < 150; ++i) {
      uint64_t steps = 0;
      const auto mask = masks.find(state, *prepared, UINT64_MAX, steps);
      ASSERT_FALSE(mask->too_costly) << "after " << i << " bytes";
      (i < 30 ? early : late) = std::max(i < 30 ? early : late, mask->steps);
      ASSERT_EQ(state.advance(i % 5 == 4 ? " " : "e", UINT64_MAX, steps), Advance::kAccepted) << i;
    }
    EXPECT_LE(late, 12 * early) << early;
  }
}

// A caller's budget decides when a mask is made, never its content or cost.
TEST(TokenMasks, BoundsOfTheCallerChangeNothing) {
  const auto vocabulary =
      std::make_shared<const VocabularyTrie>(synthetic_tokens(kSample, 250, 16));
  for (const GreedyGrammar& greedy : greedy_grammars()) {
    SCOPED_TRACE(greedy.name);
    const Result<Grammar> grammar = Grammar::from_text(greedy.text);
    ASSERT_TRUE(grammar.ok());
    TokenMasks whole(vocabulary, {.state_steps = 3'000}),
        in_parts(vocabulary, {.state_steps = 3'000});
    // `in_parts` makes nodes when they are reached.
    const uint32_t prepared = *whole.prepare(*grammar);
    GrammarState state = grammar->start();
    int late = 0;
    for (int i = 0; i < 12; ++i) {
      uint64_t steps = 0;
      const auto expected = whole.find(state, prepared, UINT64_MAX, steps);
      std::shared_ptr<const StateMask> found;
      for (uint64_t bound = 1; found == nullptr; bound *= 16) {
        found = in_parts.find(state, prepared, bound, steps);
        late += found == nullptr;
      }
      EXPECT_EQ(found->bits, expected->bits) << i;
      EXPECT_EQ(found->steps, expected->steps) << i;
      EXPECT_EQ(found->too_costly, expected->too_costly) << i;
      EXPECT_EQ(expected->too_costly, expected->bits.empty()) << i;
      if (state.advance("e", UINT64_MAX, steps) != Advance::kAccepted) break;
    }
    EXPECT_GT(late, 6);
  }
}

// Threads walk and write masks of one grammar, with a nearly empty cache, so that both generations
// turn over all the time.
TEST(TokenMasks, ThreadsShareThem) {
  const auto vocabulary =
      std::make_shared<const VocabularyTrie>(synthetic_tokens(kSample, 300, 10));
  TokenMasks masks(vocabulary, {.node_bytes = 60'000, .state_bytes = 4'000});
  const Result<Grammar> grammar = Grammar::json_object();
  const std::string text = R"({"a": [1, 2.5, {"b": "xyz", "c": null}], "d": "\u00e9 \n"})";
  const auto walk = [&] {
    std::vector<uint32_t> sums;
    std::vector<uint32_t> mask(vocabulary->mask_words());
    GrammarState state = grammar->start();
    for (const char c : text) {
      masks.write(state, mask);
      for (const uint32_t word : mask) sums.push_back(word);
      if (!state.accept({&c, 1})) sums.clear();
    }
    return sums;
  };
  const std::vector<uint32_t> expected = walk();
  std::vector<std::vector<uint32_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& sums : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) sums = walk();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& sums : found) EXPECT_EQ(sums, expected);
}

TEST(TokenMasks, WhereNothingIsAllowedTheMaskIsEmpty) {
  const std::vector<std::string> tokens = {"a", "bb", ""};
  TokenMasks masks(std::make_shared<const VocabularyTrie>(tokens));
  GrammarState state = Grammar::from_text("root ::= \"ab\"")->start();
  std::vector<uint32_t> mask(1);
  EXPECT_FALSE(masks.write(state, mask));
  EXPECT_EQ(mask[0], 1u);
  ASSERT_TRUE(state.accept("a"));
  EXPECT_FALSE(masks.write(state, mask));
  EXPECT_EQ(mask[0], 0u) << "only \"b\" would do, and no token has it";
  ASSERT_TRUE(state.accept("b"));
  EXPECT_TRUE(masks.write(state, mask));
  EXPECT_EQ(mask[0], 0u);
}

}  // namespace
}  // namespace forerun::grammar
