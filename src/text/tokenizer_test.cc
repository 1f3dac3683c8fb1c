// Tests the tokenizer's stages on small vocabularies made here; the expected ids are derived from
// the rules by hand, and agree with Hugging Face's tokenizers.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/detokenizer.h"

namespace forerun {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr const char* kMark = "\xe2\x96\x81";

// Ids 0..255 are the bytes; merges get ids from 256 on, in order.
json byte_level(const std::vector<std::pair<std::string, std::string>>& merges) {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    vocab[text::to_byte_alphabet(std::string_view(&c, 1))] = byte;
  }
  json list = json::array();
  int32_t next = 256;
  for (const auto& [left, right] : merges) {
    vocab[left + right] = next++;
    list.push_back({left, right});
  }
  return {
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

// Llama 2's form: <unk>, <s>, </s>, 256 byte tokens from 3 on, then `pieces` and merges.
json sentence_piece(const std::vector<std::string>& pieces,
                    const std::vector<std::pair<std::string, std::string>>& merges) {
  json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    vocab[name] = 3 + byte;
  }
  int32_t next = 259;
  for (const std::string& piece : pieces) vocab[piece] = next++;
  json list = json::array();
  for (const auto& [left, right] : merges) {
    vocab[left + right] = next++;
    list.push_back(left + " " + right);
  }
  json added = json::array();
  for (int id = 0; id < 3; ++id) {
    const char* names[] = {"<unk>", "<s>", "</s>"};
    added.push_back({{"id", id}, {"content", names[id]}, {"special", true}, {"normalized", false}});
  }
  return {{"added_tokens", added},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", kMark}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single",
             {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", list}}}};
}

Tokenizer must_load(const json& file) {
  auto tokenizer = Tokenizer::from_json(file.dump());
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.status().message());
  return std::move(tokenizer).value();
}

Ids ids_of(const Tokenizer& tokenizer, const std::string& text, EncodeOptions options = {}) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().message();
  return ids.ok() ? *ids : Ids{-1};
}

TEST(ByteLevelBpe, LowestRankFirstThenLeftmost) {
  // "aaa": (a,a) leftmost first gives [aa, a]. "abab": ab ab, then (ab,ab).
  const Tokenizer tokenizer =
      must_load(byte_level({{"a", "b"}, {"a", "a"}, {"ab", "ab"}, {"b", "c"}}));
  EXPECT_EQ(ids_of(tokenizer, "aaa"), (Ids{257, 'a'}));
  EXPECT_EQ(ids_of(tokenizer, "abab"), (Ids{258}));
  EXPECT_EQ(ids_of(tokenizer, "abc"), (Ids{256, 'c'}));  // (a,b) ranks before (b,c)
  EXPECT_EQ(ids_of(tokenizer, "aab"), (Ids{'a', 256}));
  EXPECT_EQ(ids_of(tokenizer, ""), Ids{});
}

TEST(ByteLevelBpe, LongPiecesEqualShortOnes) {
  // A piece longer than the scan's limit goes through the heap; both must merge alike. Without
  // other letters between, a repeated "ab" is one piece.
  const Tokenizer tokenizer =
      must_load(byte_level({{"a", "b"}, {"ab", "ab"}, {"abab", "abab"}, {"b", "a"}}));
  for (const size_t count : {3, 19, 20, 21, 40, 64, 1000}) {
    std::string text;
    Ids expected;
    for (size_t i = 0; i < count; ++i) text += "ab";
    for (size_t i = 0; i < count / 4; ++i) expected.push_back(258);
    if (count % 4 >= 2) expected.push_back(257);
    if (count % 2 == 1) expected.push_back(256);
    EXPECT_EQ(ids_of(tokenizer, text), expected) << count;
  }
}

TEST(ByteLevelBpe, MergesAsTextAndAsPairsAreTheSame) {
  json pairs = byte_level({{"a", "b"}, {"ab", "c"}});
  json texts = pairs;
  texts["model"]["merges"] = {"a b", "ab c"};
  EXPECT_EQ(must_load(pairs).fingerprint(), must_load(texts).fingerprint());
  EXPECT_EQ(ids_of(must_load(texts), "abc"), (Ids{257}));
}

TEST(ByteLevelBpe, IgnoreMergesTakesWholeWords) {
  json file = byte_level({{"a", "b"}});
  file["model"]["vocab"]["abc"] = 300;  // no merge makes it
  EXPECT_EQ(ids_of(must_load(file), "abc"), (Ids{256, 'c'}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(ids_of(must_load(file), "abc"), (Ids{300}));
}

TEST(ByteLevelBpe, BytesThatAreNoUtf8KeepTheirValues) {
  const Tokenizer tokenizer = must_load(byte_level({{"a", "b"}}));
  EXPECT_EQ(ids_of(tokenizer,
                   "ab\xff\xfe"
                   "ab\xe2\x96"),
            (Ids{256, 0xff, 0xfe, 256, 0xe2, 0x96}));
  EXPECT_EQ(tokenizer.decode(Ids{0xe2, 0x96, 'x', 0xff}), "\xef\xbf\xbdx\xef\xbf\xbd");
}

// Ill-formed bytes that a vocabulary lacks are read as U+FFFD, not dropped.
TEST(ByteLevelBpe, BytesThatTheVocabularyLacksBecomeTheReplacementCharacter) {
  json file = byte_level({});
  file["model"]["vocab"].erase("\xc3\xbc");  // represents the byte FC, which no UTF-8 text has
  const Tokenizer tokenizer = must_load(file);
  EXPECT_EQ(ids_of(tokenizer,
                   "a\xfc"
                   "b"),
            (Ids{'a', 0xef, 0xbf, 0xbd, 'b'}));
  EXPECT_EQ(ids_of(tokenizer,
                   "a\xff"
                   "b"),
            (Ids{'a', 0xff, 'b'}));
  EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, "a\xfc")), "a\xef\xbf\xbd");
  file["model"]["vocab"].erase("\xc2\xbd");  // represents the byte BD, the last of U+FFFD
  const Tokenizer without = must_load(file);
  const Status refused = without.encode("ab\xfc").status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("not UTF-8 at byte 2"), std::string::npos) << refused.message();
  EXPECT_TRUE(without.encode("ab").ok());
}

TEST(SentencePieceBpe, MarksSpacesAndFallsBackToBytes) {
  const Tokenizer tokenizer =
      must_load(sentence_piece({kMark, "a", "b"}, {{kMark, "a"}, {"a", "b"}}));
  const int32_t mark = 259, a = 260, b = 261, mark_a = 262, ab = 263;
  EXPECT_EQ(ids_of(tokenizer, "a b"), (Ids{1, mark_a, mark, b}));
  EXPECT_EQ(ids_of(tokenizer, "bab", {.add_special_tokens = false}), (Ids{mark, b, ab}));
  // U+00E9 has no token, so its bytes C3 A9 are used.
  EXPECT_EQ(ids_of(tokenizer, "a\xc3\xa9", {.add_special_tokens = false}),
            (Ids{mark_a, 3 + 0xc3, 3 + 0xa9}));
  // A byte that is not UTF-8 counts as U+FFFD.
  EXPECT_EQ(ids_of(tokenizer, "\xff", {.add_special_tokens = false}),
            (Ids{mark, 3 + 0xef, 3 + 0xbf, 3 + 0xbd}));
  // The text after a special token gets its own mark, as in Llama 2's file.
  EXPECT_EQ(ids_of(tokenizer, "</s>a"), (Ids{1, 2, mark_a}));
  EXPECT_EQ(tokenizer.decode(Ids{1, mark_a, mark, b, a}), "a ba");
}

TEST(SentencePieceBpe, CutsOnlyWhereNoMergeCrosses) {
  // A token with a mark in its middle: "a▁" joins across the words.
  const std::string mark = kMark;
  const Tokenizer tokenizer =
      must_load(sentence_piece({mark, "a", "b"}, {{"a", mark}, {mark, "b"}}));
  // "▁a▁b": (a,▁) ranks first.
  EXPECT_EQ(ids_of(tokenizer, "a b", {.add_special_tokens = false}), (Ids{259, 262, 261}));
}

TEST(AddedTokens, LongestAndFlags) {
  json file = byte_level({});
  // No UTF-8 text has the byte FC: vocabularies omit it, and its character in the byte alphabet, a
  // u with two dots, may be an added token.
  file["model"]["vocab"].erase("\xc3\xbc");
  file["added_tokens"] = {
      {{"id", 300}, {"content", "<x>"}, {"special", true}, {"normalized", false}},
      {{"id", 301}, {"content", "<x><y>"}, {"special", true}, {"normalized", false}},
      {{"id", 302}, {"content", "<l>"}, {"lstrip", true}, {"rstrip", true}, {"normalized", false}},
      {{"id", 303}, {"content", "ww"}, {"single_word", true}, {"normalized", false}},
      {{"id", 304}, {"content", "\xc3\xbc"}, {"special", false}, {"normalized", false}}};
  const Tokenizer tokenizer = must_load(file);
  EXPECT_EQ(ids_of(tokenizer, "<x><y><x>"), (Ids{301, 300}));
  EXPECT_EQ(ids_of(tokenizer, "a <l>\n b"), (Ids{'a', 302, 'b'}));
  EXPECT_EQ(ids_of(tokenizer, "ww www"), (Ids{303, ' ', 'w', 'w', 'w'}));
  EXPECT_EQ(ids_of(tokenizer, "<x>", {.parse_special = false}), (Ids{'<', 'x', '>'}));
  // Text beyond ASCII in an added token is returned unchanged.
  EXPECT_EQ(ids_of(tokenizer, "f\xc3\xbcr"), (Ids{'f', 304, 'r'}));
  EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, "f\xc3\xbcr")), "f\xc3\xbcr");
  EXPECT_EQ(tokenizer.vocab_size(), 305);
  EXPECT_TRUE(tokenizer.is_special(300));
  EXPECT_FALSE(tokenizer.is_special(302));
  EXPECT_EQ(tokenizer.token_id("<x>"), 300);
  EXPECT_EQ(tokenizer.token_id("none"), std::nullopt);
  EXPECT_EQ(tokenizer.token_text(299), "");
  EXPECT_EQ(tokenizer.decode(Ids{'a', 300, 299, 5000, -1, 'b'}), "ab");
  EXPECT_EQ(tokenizer.decode(Ids{'a', 300}, false), "a<x>");
}

// tokenizer_config.json beside the file, read like transformers 5 reads it.
TEST(AddedTokens, ConfigAddsTokensAndSetsFlags) {
  json file = byte_level({});
  file["added_tokens"] = {{{"id", 256}, {"content", "<a>"}, {"normalized", false}}};
  const auto token = [](const char* content, bool special) {
    return json{{"content", content}, {"special", special}, {"normalized", false}};
  };
  json decoder = {{"257", token("<b>", true)},
                  {"258", token("<c>", false)},
                  {"65", token("A", true)}};  // already in the vocabulary
  decoder["256"] = token("<a>", true);
  decoder["256"]["lstrip"] = true;
  const auto load = [&](const json& tokens) {
    const json config = {{"added_tokens_decoder", tokens}, {"chat_template", "{{ x }}"}};
    return Tokenizer::from_json(file.dump(), "tokenizer.json", config.dump(), "config.json");
  };
  const auto tokenizer = load(decoder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_EQ(ids_of(*tokenizer, "x <a><b>y<c>A"), (Ids{'x', 256, 257, 'y', 258, 'A'}));
  EXPECT_EQ(tokenizer->decode(Ids{'x', 256, 257, 258, 'A'}), "x<c>");

  const std::pair<json, const char*> refused[] = {
      {{{"259", token("<b>", true)}},
       "config.json: field \"added_tokens_decoder.259\": found an object; accepted: the next id"},
      {{{"97", token("<b>", true)}}, "the next id that tokenizer.json leaves free, 257"},
      {{{"x", token("<b>", true)}}, "ids from 0 to"},
      {{{"257", "<b>"}}, "added_tokens_decoder.257.content"},
      {json::array(), "accepted: an object"},
  };
  for (const auto& [tokens, message] : refused) {
    const auto loaded = load(tokens);
    ASSERT_FALSE(loaded.ok()) << tokens.dump();
    EXPECT_NE(loaded.status().message().find(message), std::string::npos)
        << loaded.status().message();
  }
}

TEST(PreTokenizers, MetaspaceSchemes) {
  json file = sentence_piece({kMark, "a"}, {{kMark, "a"}});
  file["normalizer"] = nullptr;
  const auto encode = [&](const char* scheme, const std::string& text) {
    file["pre_tokenizer"] = {{"type", "Metaspace"},
                             {"replacement", kMark},
                             {"prepend_scheme", scheme},
                             {"split", false}};
    return ids_of(must_load(file), text, {.add_special_tokens = false});
  };
  const int32_t a = 260, mark_a = 261;
  EXPECT_EQ(encode("first", "a</s>a"), (Ids{mark_a, 2, a}));
  EXPECT_EQ(encode("always", "a</s>a"), (Ids{mark_a, 2, mark_a}));
  EXPECT_EQ(encode("never", "a a"), (Ids{a, mark_a}));
  EXPECT_EQ(encode("first", " a"), (Ids{mark_a}));
  EXPECT_EQ(encode("first", "</s>a"), (Ids{2, a}));
}

TEST(PreTokenizers, SplitBehaviors) {
  // Every two letters have a merge, so pieces show in the ids: xy and yx are joined only within
  // one.
  json file = byte_level({{"a", "-"}, {"-", "a"}, {"-", "-"}});
  const int32_t a_dash = 256, dash_a = 257, dashes = 258;
  const auto encode = [&](const char* behavior) {
    file["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"},
           {"pattern", {{"Regex", "-"}}},
           {"behavior", behavior},
           {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    return ids_of(must_load(file), "a--a");
  };
  EXPECT_EQ(encode("Removed"), (Ids{'a', 'a'}));
  EXPECT_EQ(encode("Isolated"), (Ids{'a', '-', '-', 'a'}));
  EXPECT_EQ(encode("MergedWithPrevious"), (Ids{a_dash, '-', 'a'}));
  EXPECT_EQ(encode("MergedWithNext"), (Ids{'a', '-', dash_a}));
  EXPECT_EQ(encode("Contiguous"), (Ids{'a', dashes, 'a'}));
}

TEST(Normalizers, FormsAndReplacements) {
  json file = byte_level({});
  const auto bytes_of = [&](const json& normalizer, const std::string& text) {
    file["normalizer"] = normalizer;
    std::string out;
    for (const int32_t id : ids_of(must_load(file), text)) out.push_back(static_cast<char>(id));
    return out;
  };
  EXPECT_EQ(bytes_of({{"type", "NFC"}}, "e\xcc\x81"), "\xc3\xa9");
  EXPECT_EQ(bytes_of({{"type", "NFD"}}, "\xc3\xa9"), "e\xcc\x81");
  EXPECT_EQ(bytes_of({{"type", "NFKC"}}, "\xef\xac\x81"), "fi");
  EXPECT_EQ(bytes_of({{"type", "NFC"}}, "\xe1\x84\x80\xe1\x85\xa1"), "\xea\xb0\x80");  // Hangul
  EXPECT_EQ(bytes_of({{"type", "Lowercase"}}, "\xc3\x89X"), "\xc3\xa9x");
  EXPECT_EQ(bytes_of({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, " \ta "),
            "a ");
  EXPECT_EQ(bytes_of({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "_"}},
                     "a   b c"),
            "a_b c");
  EXPECT_EQ(bytes_of({{"type", "Sequence"},
                      {"normalizers", {{{"type", "NFD"}}, {{"type", "StripAccents"}}}}},
                     "\xc3\xa9"),
            "e");
}

TEST(TokenizerLoad, RefusesWithFileFieldFoundAndAccepted) {
  struct Case {
    json::json_pointer where;
    json value;
    const char* expected;
  };
  const std::vector<Case> cases = {
      {json::json_pointer("/model/type"), "Unigram", "\"model.type\": found \"Unigram\"; accepted"},
      {json::json_pointer("/normalizer"), {{"type", "Precompiled"}}, "\"normalizer.type\": found"},
      {json::json_pointer("/pre_tokenizer"), {{"type", "FixedLength"}}, "pre_tokenizer.type"},
      {json::json_pointer("/decoder"), {{"type", "CTC"}}, "decoder.type"},
      {json::json_pointer("/post_processor"), {{"type", "Other"}}, "post_processor.type"},
      {json::json_pointer("/model/dropout"), 0.1, "model.dropout"},
      {json::json_pointer("/model/end_of_word_suffix"), "</w>", "end_of_word_suffix"},
      {json::json_pointer("/model/merges"), {"a b c"}, "model.merges[0]"},
      {json::json_pointer("/model/merges"), {"a zz"}, "model.merges[0]"},
      {json::json_pointer("/model/vocab/a"), -4, "model.vocab[\"a\"]"},
      {json::json_pointer("/model/vocab/a"), 98, "model.vocab"},
      {json::json_pointer("/model/vocab/a"), 1 << 30, "model.vocab[\"a\"]"},
      {json::json_pointer("/model/vocab/a"), "x", "model.vocab[\"a\"]"},
      {json::json_pointer("/added_tokens"), {{{"id", 5}, {"content", "q"}}}, "added_tokens[0]"},
      {json::json_pointer("/pre_tokenizer"),
       {{"type", "Split"}, {"pattern", {{"Regex", "[a&&b]"}}}, {"behavior", "Isolated"}},
       "&&"},
      {json::json_pointer("/pre_tokenizer"),
       {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}},
       "(a"},
  };
  for (const Case& refused : cases) {
    json file = byte_level({});
    file[refused.where] = refused.value;
    const auto tokenizer = Tokenizer::from_json(file.dump(), "dir/tokenizer.json");
    ASSERT_FALSE(tokenizer.ok()) << refused.where << " " << refused.value;
    EXPECT_NE(tokenizer.status().message().find(refused.expected), std::string::npos)
        << tokenizer.status().message();
    EXPECT_TRUE(tokenizer.status().message().starts_with("dir/tokenizer.json: "))
        << tokenizer.status().message();
  }
  EXPECT_EQ(Tokenizer::load("/nonexistent").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Tokenizer::from_json("{\"model\":").status().code(), StatusCode::kCorrupt);
  EXPECT_FALSE(Tokenizer::from_json(std::string(100'000, '[')).ok());
}

TEST(TokenizerLoad, HostileExpressionsComeToAnEnd) {
  json file = byte_level({});
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"Regex", "(a+)+$"}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  const Tokenizer tokenizer = must_load(file);
  const auto ids = tokenizer.encode(std::string(4000, 'a') + "b");
  EXPECT_EQ(ids.status().code(), StatusCode::kResourceExhausted);
}

TEST(SameTokenizer, SpecialTokensMayDifferOrdinaryOnesMayNot) {
  json target = byte_level({{"a", "b"}});
  target["added_tokens"] = {{{"id", 300}, {"content", "<|reserved_0|>"}, {"special", true}}};
  json draft = target;
  draft["added_tokens"] = {{{"id", 300}, {"content", "<|pad|>"}, {"special", true}},
                           {{"id", 301}, {"content", "<|more|>"}, {"special", true}}};
  EXPECT_NE(must_load(target).fingerprint(), must_load(draft).fingerprint());
  EXPECT_TRUE(check_same_tokenizer(must_load(target), must_load(draft)).ok());

  draft["model"]["vocab"]["zz"] = 400;
  Status status = check_same_tokenizer(must_load(target), must_load(draft));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("token 400 is none in the target and \"zz\" in the draft"),
            std::string::npos)
      << status.message();

  draft = target;
  draft["model"]["merges"] = json::array();
  EXPECT_NE(check_same_tokenizer(must_load(target), must_load(draft)).message().find("merges"),
            std::string::npos);
  draft = target;
  draft["normalizer"] = {{"type", "NFC"}};
  EXPECT_NE(check_same_tokenizer(must_load(target), must_load(draft)).message().find("normalizer"),
            std::string::npos);
  // Trimming of offsets makes no difference.
  draft = target;
  draft["pre_tokenizer"]["trim_offsets"] = true;
  EXPECT_EQ(must_load(target).fingerprint(), must_load(draft).fingerprint());
  // Neither does ByteLevel's default, given or omitted.
  draft["pre_tokenizer"].erase("use_regex");
  EXPECT_EQ(must_load(target).fingerprint(), must_load(draft).fingerprint());
  draft["pre_tokenizer"]["use_regex"] = false;
  EXPECT_NE(must_load(target).fingerprint(), must_load(draft).fingerprint());
}

TEST(TokenizerThreads, EncodeInParallelGivesTheSameIds) {
  const Tokenizer tokenizer = must_load(byte_level({{"a", "b"}, {"ab", "c"}}));
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "abc ab" + std::to_string(i) + " ";
  const Ids expected = ids_of(tokenizer, text);
  std::vector<std::thread> threads;
  std::vector<Ids> got(4);
  for (size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] { got[i] = ids_of(tokenizer, text); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) EXPECT_EQ(ids, expected);
}

TEST(Detokenizer, HoldsBackHalfCharacters) {
  const Tokenizer tokenizer = must_load(byte_level({}));
  Detokenizer stream(tokenizer);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xf0), "");
  EXPECT_EQ(stream.push(0x9f), "");
  EXPECT_EQ(stream.push(0xa6), "");
  EXPECT_EQ(stream.push(0x99), "\xf0\x9f\xa6\x99");
  EXPECT_EQ(stream.push(0xe2), "");
  EXPECT_EQ(stream.push('b'),
            "\xef\xbf\xbd"
            "b");
  EXPECT_EQ(stream.push(0xe2), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Detokenizer, DropsOnlyTheFirstSpace) {
  const Tokenizer tokenizer = must_load(sentence_piece({kMark, "a"}, {{kMark, "a"}}));
  const int32_t mark = 259, mark_a = 261;
  Detokenizer stream(tokenizer);
  EXPECT_EQ(stream.push(1), "");  // <s>
  EXPECT_EQ(stream.push(mark), "");
  EXPECT_EQ(stream.push(mark_a), " a");
  EXPECT_EQ(stream.push(3 + 0xc3), "");
  EXPECT_EQ(stream.push(3 + 0xa9), "\xc3\xa9");
  // Byte tokens that form no character: one mark per byte.
  EXPECT_EQ(stream.push(3 + 0xe2), "");
  EXPECT_EQ(stream.push(3 + 0x96), "");
  EXPECT_EQ(stream.push(mark_a), "\xef\xbf\xbd\xef\xbf\xbd a");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push(mark_a), "a");  // a new stream
}

}  // namespace
}  // namespace forerun
