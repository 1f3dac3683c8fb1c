// Tests tokenizers made from small vocabularies in the form of GGUF files; the expected ids are
// derived from the rules by hand.
#include "text/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/gguf_pre_kinds.h"
#include "text/tokenizer.h"

namespace forerun {
namespace {

using Ids = std::vector<int32_t>;

constexpr const char* kMark = "\xe2\x96\x81";

// Keeps the strings that views in vocabularies refer to.
std::string_view keep(std::string text) {
  static std::deque<std::string> strings;
  return strings.emplace_back(std::move(text));
}

int32_t add(GgufVocabulary& vocabulary, const std::string& token, int32_t type = 1,
            float score = 0) {
  vocabulary.tokens.push_back(keep(token));
  vocabulary.types.push_back(type);
  if (vocabulary.model == "llama") vocabulary.scores.push_back(score);
  return static_cast<int32_t>(vocabulary.tokens.size()) - 1;
}

// Ids 0..255 are the bytes, followed by "ab", "12" and "abab", <|end|> (control) and <tool> (user
// defined), an unused token and two rows of padding.
constexpr int32_t kAb = 256, k12 = 257, kAbab = 258, kEnd = 259, kTool = 260, kUnused = 261;
GgufVocabulary byte_level(const std::string& pre = "gpt-2") {
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = pre;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    add(vocabulary, text::to_byte_alphabet(std::string_view(&c, 1)));
  }
  for (const char* token : {"ab", "12", "abab"}) add(vocabulary, token);
  vocabulary.merges = {"a b", "1 2", "ab ab"};
  add(vocabulary, "<|end|>", 3);
  add(vocabulary, "<tool>", 4);
  add(vocabulary, "spare", 5);
  add(vocabulary, "[PAD262]", 5);
  add(vocabulary, "[PAD263]", 5);
  vocabulary.bos = kEnd;
  vocabulary.eos = kEnd;
  return vocabulary;
}

// <unk>, <s>, </s>, 256 byte tokens from 3 on; then the mark, "a", "b", "c" (259 to 262), "ab",
// "bc", mark + "a" (263 to 265) by falling score.
constexpr int32_t kSpace = 259, kA = 260, kB = 261, kC = 262, kAB = 263, kBC = 264, kSpaceA = 265;
GgufVocabulary sentence_piece() {
  GgufVocabulary vocabulary;
  vocabulary.model = "llama";
  add(vocabulary, "<unk>", 2);
  add(vocabulary, "<s>", 3);
  add(vocabulary, "</s>", 3);
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    add(vocabulary, name, 6);
  }
  for (const char* token : {kMark, "a", "b", "c"}) add(vocabulary, token, 1, -100);
  add(vocabulary, "ab", 1, -1);
  add(vocabulary, "bc", 1, -2);
  add(vocabulary, std::string(kMark) + "a", 1, -3);
  return vocabulary;
}

Tokenizer must_load(const GgufVocabulary& vocabulary) {
  auto tokenizer = Tokenizer::from_gguf(vocabulary);
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.status().message());
  return std::move(tokenizer).value();
}

Ids ids_of(const Tokenizer& tokenizer, const std::string& text, EncodeOptions options = {}) {
  const auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().message();
  return ids.ok() ? *ids : Ids{-1};
}

TEST(GgufByteLevel, EncodesAndDecodes) {
  const Tokenizer tokenizer = must_load(byte_level());
  EXPECT_EQ(ids_of(tokenizer, "abab"), (Ids{kAbab}));
  EXPECT_EQ(ids_of(tokenizer, "ab 12"), (Ids{kAb, ' ', k12}));
  EXPECT_EQ(ids_of(tokenizer, "\xff"), (Ids{0xff}));
  EXPECT_EQ(tokenizer.decode(Ids{kAbab, ' ', 0xc3, 0xa4}), "abab \xc3\xa4");
}

TEST(GgufByteLevel, TypesOfTokens) {
  const Tokenizer tokenizer = must_load(byte_level());
  EXPECT_TRUE(tokenizer.is_special(kEnd));
  EXPECT_FALSE(tokenizer.is_special(kTool));
  EXPECT_EQ(ids_of(tokenizer, "ab<|end|><tool>"), (Ids{kAb, kEnd, kTool}));
  // User-defined tokens are found in any text, control tokens only if the caller allows it.
  const Ids plain = ids_of(tokenizer, "ab<|end|><tool>", {.parse_special = false});
  EXPECT_EQ(std::count(plain.begin(), plain.end(), kEnd), 0);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), kTool), 1);
  EXPECT_EQ(tokenizer.decode(Ids{kAb, kEnd, kTool}), "ab<tool>");
  EXPECT_EQ(tokenizer.decode(Ids{kAb, kEnd, kTool}, false), "ab<|end|><tool>");
  // An unused token is a token; padding is not.
  EXPECT_EQ(tokenizer.token_text(kUnused), "spare");
  EXPECT_EQ(tokenizer.vocab_size(), kUnused + 1);
  EXPECT_FALSE(tokenizer.token_id("[PAD262]").has_value());
  EXPECT_FALSE(tokenizer.token_bytes(262).has_value());
}

TEST(GgufByteLevel, OnlyPaddingOfItsOwnIdIsNoToken) {
  GgufVocabulary vocabulary = byte_level();
  vocabulary.tokens[262] = "[PAD9]";
  vocabulary.types[263] = 1;
  vocabulary.tokens[258] = "";
  vocabulary.merges.pop_back();
  const Tokenizer tokenizer = must_load(vocabulary);
  EXPECT_EQ(tokenizer.token_text(262), "[PAD9]");
  EXPECT_EQ(tokenizer.token_text(263), "[PAD263]");
  EXPECT_FALSE(tokenizer.token_bytes(258).has_value());
}

TEST(GgufByteLevel, AMergeMayNameAnAddedToken) {
  GgufVocabulary vocabulary = byte_level();
  vocabulary.types[kAbab] = 4;
  const Tokenizer tokenizer = must_load(vocabulary);
  EXPECT_EQ(ids_of(tokenizer, "abab"), (Ids{kAbab}));
  EXPECT_EQ(ids_of(tokenizer, "ababab"), (Ids{kAbab, kAb}));
}

TEST(GgufByteLevel, KindsCutAsTheirFamilies) {
  const std::string text = "ab 1212";
  const auto ids = [&](const std::string& pre, const std::string& given) {
    return ids_of(must_load(byte_level(pre)), given, {.add_special_tokens = false});
  };
  EXPECT_EQ(ids("gpt-2", text), (Ids{kAb, ' ', k12, k12}));
  EXPECT_EQ(ids("smollm", text), (Ids{kAb, ' ', '1', '2', '1', '2'}));
  EXPECT_EQ(ids("qwen2", text), (Ids{kAb, ' ', '1', '2', '1', '2'}));
  EXPECT_EQ(ids("llama-bpe", text), (Ids{kAb, ' ', k12, '1', '2'}));  // 121 2
  EXPECT_EQ(ids("deepseek-v3", text), (Ids{kAb, ' ', k12, '1', '2'}));
  EXPECT_EQ(ids("tekken", "abAB"), (Ids{kAb, 'A', 'B'}));
  // NFC with Qwen2, not with Llama 3: "a", U+030A.
  EXPECT_EQ(ids("qwen2", "a\xcc\x8a"), (Ids{0xc3, 0xa5}));
  EXPECT_EQ(ids("llama-bpe", "a\xcc\x8a"), (Ids{'a', 0xcc, 0x8a}));
}

TEST(GgufByteLevel, WholeWordsBeforeMergesWhereTheKindSaysSo) {
  // "cc" is a token that no merge makes.
  const auto ids = [](const std::string& pre) {
    GgufVocabulary vocabulary = byte_level(pre);
    vocabulary.tokens[kUnused] = "cc";
    return ids_of(must_load(vocabulary), "cc", {.add_special_tokens = false});
  };
  EXPECT_EQ(ids("llama-bpe"), (Ids{kUnused}));
  EXPECT_EQ(ids("tekken"), (Ids{kUnused}));
  EXPECT_EQ(ids("youtu"), (Ids{kUnused}));
  EXPECT_EQ(ids("smaug-bpe"), (Ids{'c', 'c'}));
  EXPECT_EQ(ids("qwen2"), (Ids{'c', 'c'}));
}

TEST(GgufByteLevel, EveryKindLoadsAndGivesTheTextBack) {
  const std::string names = text::gguf_pre_kind_names();
  const std::string sample =
      "It's  ab12\r\n\n\t345678 d\xc3\xa9j\xc3\xa0 \xe4\xbd\xa0\xe5\xa5\xbd\xe3\x81\x82 "
      "\xed\x95\x9c HTTPServer/x ?!... \xd0\x96\xd0\xb8\xd0\xb7\xd0\xbd\xd1\x8c\xf0\x9f\x98\x80 ";
  size_t count = 0;
  for (size_t from = 0; from < names.size(); ++count) {
    const size_t comma = std::min(names.find(", ", from), names.size());
    const std::string name = names.substr(from, comma - from);
    from = comma + 2;
    SCOPED_TRACE(name);
    const Tokenizer tokenizer = must_load(byte_level(name));
    EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, sample)), sample);
  }
  EXPECT_EQ(count, text::gguf_pre_kinds().size());
}

TEST(GgufSentencePiece, MergesFollowFromScores) {
  const Tokenizer tokenizer = must_load(sentence_piece());
  const EncodeOptions plain{.add_special_tokens = false};
  // "ab" has the best score, then "bc", then mark + "a".
  EXPECT_EQ(ids_of(tokenizer, "abc", plain), (Ids{kSpace, kAB, kC}));
  EXPECT_EQ(ids_of(tokenizer, "bc", plain), (Ids{kSpace, kBC}));
  EXPECT_EQ(ids_of(tokenizer, "ac", plain), (Ids{kSpaceA, kC}));
  EXPECT_EQ(ids_of(tokenizer, "c a", plain), (Ids{kSpace, kC, kSpaceA}));
  GgufVocabulary other = sentence_piece();
  std::swap(other.scores[kAB], other.scores[kBC]);
  EXPECT_EQ(ids_of(must_load(other), "abc", plain), (Ids{kSpaceA, kBC}));
}

TEST(GgufSentencePiece, BytesSpacesAndSpecialTokens) {
  const Tokenizer tokenizer = must_load(sentence_piece());
  EXPECT_EQ(ids_of(tokenizer, "a\xc3\xa9"), (Ids{1, kSpaceA, 3 + 0xc3, 3 + 0xa9}));
  EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, "a\xc3\xa9 b")), "a\xc3\xa9 b");
  EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, " a")), " a");
  EXPECT_TRUE(tokenizer.is_special(0) && tokenizer.is_special(1) && tokenizer.is_special(2));
  EXPECT_FALSE(tokenizer.is_special(3));
  // A space is put before the text after a special token.
  EXPECT_EQ(ids_of(tokenizer, "b</s>b", {.add_special_tokens = false}),
            (Ids{kSpace, kB, 2, kSpace, kB}));
}

TEST(GgufSentencePiece, SpacePrefixAsTheFileSays) {
  GgufVocabulary vocabulary = sentence_piece();
  vocabulary.add_space_prefix = false;
  vocabulary.add_bos = false;
  const int32_t run = add(vocabulary, "  ", 4, -1000);
  const Tokenizer tokenizer = must_load(vocabulary);
  EXPECT_EQ(ids_of(tokenizer, "b a"), (Ids{kB, kSpaceA}));
  EXPECT_EQ(tokenizer.decode(Ids{kSpaceA}), " a");
  // A user-defined run of spaces is a run of U+2581, found before any merge.
  EXPECT_EQ(tokenizer.token_text(run), std::string(kMark) + kMark);
  EXPECT_EQ(ids_of(tokenizer, "b  a"), (Ids{kB, run, kA}));
  EXPECT_EQ(tokenizer.decode(Ids{kB, run, kA}), "b  a");
}

TEST(GgufSentencePiece, MistralPutsTheSpaceBeforeTheBeginningOnly) {
  GgufVocabulary vocabulary = sentence_piece();
  const int32_t inst = add(vocabulary, "[INST]", 3);
  const EncodeOptions plain{.add_special_tokens = false};
  const Tokenizer tokenizer = must_load(vocabulary);
  EXPECT_EQ(ids_of(tokenizer, "b[INST]b", plain), (Ids{kSpace, kB, inst, kB}));
  EXPECT_EQ(ids_of(tokenizer, " b", plain), (Ids{kSpace, kB}));
  vocabulary.types.back() = 1;
  EXPECT_EQ(ids_of(must_load(vocabulary), " b", plain), (Ids{kSpace, kSpace, kB}));
}

TEST(GgufVocabulary, BosAndEos) {
  GgufVocabulary llama = sentence_piece();
  EXPECT_EQ(ids_of(must_load(llama), ""), (Ids{1}));
  llama.add_eos = true;
  EXPECT_EQ(ids_of(must_load(llama), "b"), (Ids{1, kSpace, kB, 2}));
  llama.bos = 2;
  llama.eos = 0;
  EXPECT_EQ(ids_of(must_load(llama), ""), (Ids{2, 0}));
  llama.add_bos = false;
  EXPECT_EQ(ids_of(must_load(llama), ""), (Ids{0}));

  GgufVocabulary bytes = byte_level("qwen2");
  EXPECT_EQ(ids_of(must_load(bytes), ""), Ids{});
  bytes.add_eos = true;
  EXPECT_EQ(ids_of(must_load(bytes), ""), (Ids{kEnd}));
  // llama.cpp's default is BOS for some families; the file's own value has priority.
  bytes = byte_level("glm4");
  EXPECT_EQ(ids_of(must_load(bytes), ""), Ids{});
  bytes.add_bos = true;
  EXPECT_EQ(ids_of(must_load(bytes), ""), (Ids{kEnd}));
  bytes = byte_level("falcon3");
  EXPECT_EQ(ids_of(must_load(bytes), ""), (Ids{kEnd}));
  bytes.add_bos = false;
  EXPECT_EQ(ids_of(must_load(bytes), ""), Ids{});
  bytes = byte_level("llama-bpe");
  bytes.bos = kTool;
  EXPECT_EQ(ids_of(must_load(bytes), ""), (Ids{kTool}));
  EXPECT_EQ(ids_of(must_load(bytes), "", {.add_special_tokens = false}), Ids{});
}

struct Refusal {
  const char* what;
  StatusCode code;
  std::function<void(GgufVocabulary&)> break_it;
  std::string message;  // a part of the message
};

void expect_refusals(const GgufVocabulary& good, const std::vector<Refusal>& refusals) {
  EXPECT_TRUE(Tokenizer::from_gguf(good).ok());
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.what);
    GgufVocabulary vocabulary = good;
    refusal.break_it(vocabulary);
    const auto tokenizer = Tokenizer::from_gguf(vocabulary, "a.gguf");
    ASSERT_FALSE(tokenizer.ok());
    const std::string message = tokenizer.status().message();
    EXPECT_EQ(tokenizer.status().code(), refusal.code) << message;
    EXPECT_TRUE(message.starts_with("a.gguf: tokenizer.ggml." + refusal.message)) << message;
    EXPECT_NE(message.find("; accepted: "), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

constexpr StatusCode kBad = StatusCode::kCorrupt;
constexpr StatusCode kNo = StatusCode::kUnsupported;

TEST(GgufVocabulary, RefusedKindsSayWhatToDo) {
  GgufVocabulary vocabulary = byte_level();
  vocabulary.pre = "x";
  const std::string other = Tokenizer::from_gguf(vocabulary, "a.gguf").status().message();
  EXPECT_NE(other.find("; open the model's Hugging Face directory"), std::string::npos) << other;
  vocabulary.pre.clear();
  const std::string none = Tokenizer::from_gguf(vocabulary, "a.gguf").status().message();
  EXPECT_NE(none.find("convert_hf_to_gguf.py, or open the model's"), std::string::npos) << none;
  vocabulary.model = "t5";
  const std::string t5 = Tokenizer::from_gguf(vocabulary, "a.gguf").status().message();
  EXPECT_NE(t5.find("; open the model's Hugging Face directory"), std::string::npos) << t5;
}

TEST(GgufVocabulary, RefusesByteLevelOnes) {
  expect_refusals(
      byte_level(),
      {
          {"WordPiece", kNo, [](auto& v) { v.model = "bert"; },
           "model: found \"bert\" (WordPiece); accepted: \"gpt2\" (byte-level BPE), \"llama\""},
          {"unigram", kNo, [](auto& v) { v.model = "t5"; },
           "model: found \"t5\" (SentencePiece's unigram model); accepted: "},
          {"RWKV", kNo, [](auto& v) { v.model = "rwkv"; }, "model: found \"rwkv\" (RWKV's trie)"},
          {"PLaMo 2", kNo, [](auto& v) { v.model = "plamo2"; },
           "model: found \"plamo2\" (PLaMo 2's table); accepted: "},
          {"an unknown model", kNo, [](auto& v) { v.model = "x"; }, "model: found \"x\"; acc"},
          {"no model", kNo, [](auto& v) { v.model.clear(); }, "model: found \"\""},
          {"pre", kNo, [](auto& v) { v.pre = "x"; }, "pre: found \"x\"; accepted: gpt-2, phi-2,"},
          {"no pre", kNo, [](auto& v) { v.pre.clear(); }, "pre: found none"},
          {"prefix", kNo, [](auto& v) { v.add_space_prefix = true; }, "add_space_prefix: "},
          {"white space", kNo, [](auto& v) { v.remove_extra_whitespaces = true; },
           "remove_extra_whitespaces: found true"},
          {"no tokens", kBad,
           [](auto& v) {
             v.tokens.clear();
             v.types.clear();
           },
           "tokens: found none"},
          {"no merges", kBad, [](auto& v) { v.merges.clear(); }, "merges: found none"},
          {"types", kBad, [](auto& v) { v.types.pop_back(); },
           "token_type: found 263; accepted: one for each of 264 tokens"},
          {"scores", kBad, [](auto& v) { v.scores.assign(3, 0); }, "scores: found 3"},
          {"type 0", kBad, [](auto& v) { v.types[5] = 0; }, "token_type[5]: found 0"},
          {"type 7", kBad, [](auto& v) { v.types[5] = 7; }, "token_type[5]: found 7"},
          {"twice", kBad, [](auto& v) { v.tokens[kTool] = "ab"; },
           "tokens[260]: found \"ab\", which is token 256 too"},
          {"no UTF-8", kBad, [](auto& v) { v.tokens[kUnused] = "\xff"; }, "tokens[261]: "},
          {"merge of no token", kBad, [](auto& v) { v.merges[1] = "a xy"; },
           "merges[1]: found \"a xy\""},
          {"merge to no token", kBad, [](auto& v) { v.merges[1] = "a a"; },
           "merges[1]: found \"a a\""},
          {"merge without a space", kBad, [](auto& v) { v.merges[2] = "ab"; },
           "merges[2]: found \"ab\""},
          {"empty merge", kBad, [](auto& v) { v.merges[2] = ""; }, "merges[2]: found \"\""},
          {"bos", kBad, [](auto& v) { v.bos = 264; },
           "bos_token_id: found 264; accepted: an id from 0 to 263"},
          {"pad", kBad, [](auto& v) { v.pad = -1; }, "padding_token_id: found -1"},
          {"no bos to add", kBad,
           [](auto& v) {
             v.add_bos = true;
             v.bos.reset();
           },
           "bos_token_id: found none"},
          {"bos that is padding", kBad,
           [](auto& v) {
             v.add_bos = true;
             v.bos = 263;
           },
           "bos_token_id: found 263"},
          {"a long special token", kNo,
           [](auto& v) { v.tokens[kEnd] = keep(std::string(2000, 'x')); },
           "tokens[259]: found 2000 bytes"},
      });
}

TEST(GgufVocabulary, RefusesSentencePieceOnes) {
  expect_refusals(
      sentence_piece(),
      {
          {"no scores", kBad, [](auto& v) { v.scores.clear(); }, "scores: found 0"},
          {"equal scores", kNo, [](auto& v) { v.scores.assign(v.tokens.size(), -1000); },
           "scores: found the same"},
          {"a byte by another name", kBad, [](auto& v) { v.tokens[3] = "<0x0>"; },
           "tokens[3]: found \"<0x0>\""},
          {"unk", kBad, [](auto& v) { v.unk = 1000; }, "unknown_token_id: found 1000"},
          {"a merge of no token", kBad, [](auto& v) { v.merges = {"a c"}; }, "merges[0]: "},
          {"a long token", kNo, [](auto& v) { v.tokens[kC] = keep(std::string(2000, 'c')); },
           "tokens[262]: found 2000 bytes"},
      });
}

}  // namespace
}  // namespace forerun
