// Tests texts that are long or of one piece: their tokens are those of the plain rule, and a limit
// on their number gives the same verdict as counting all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace forerun {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;
using Merges = std::vector<std::pair<std::string, std::string>>;

// Ids 0 to 255 are the bytes; merges get ids from 256 on, in order. Each text is one piece.
json one_piece(const Merges& merges) {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    vocab[text::to_byte_alphabet(std::string_view(&c, 1))] = byte;
  }
  json list = json::array();
  int32_t next = 256;
  for (const auto& [left, right] : merges) {
    vocab[text::to_byte_alphabet(left + right)] = next++;
    list.push_back({text::to_byte_alphabet(left), text::to_byte_alphabet(right)});
  }
  return {
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

Tokenizer load(const json& file) {
  auto tokenizer = Tokenizer::from_json(file.dump());
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.status().message());
  return std::move(*tokenizer);
}

Ids bounded_ids(const Tokenizer& tokenizer, const std::string& text) {
  auto ids = tokenizer.encode(text);
  if (!ids.ok()) throw std::runtime_error(ids.status().message());
  return std::move(*ids);
}

// Applies the rule as specified: joins the lowest rank, leftmost among equals, repeatedly.
std::vector<std::string> plain_rule(const std::string& text, const Merges& merges) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  while (true) {
    size_t best_rank = merges.size(), best_at = 0;
    for (size_t at = 0; at + 1 < parts.size(); ++at) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].first != parts[at] || merges[rank].second != parts[at + 1]) continue;
        best_rank = rank;
        best_at = at;
      }
    }
    if (best_rank == merges.size()) return parts;
    parts[best_at] += parts[best_at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

uint64_t random_state = 11;
size_t random_below(size_t limit) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<size_t>((random_state >> 33) % limit);
}

// Returns merges of few letters, so that pairs repeat, in any order of ranks, so that joining two
// symbols may create a pair of a lower rank.
Merges random_merges(size_t count) {
  std::vector<std::string> parts = {"a", "b", "c"};
  Merges merges;
  for (int tries = 0; tries < 1000 && merges.size() < count; ++tries) {
    const std::string left = parts[random_below(parts.size())];
    const std::string right = parts[random_below(parts.size())];
    const bool is_new = std::find(parts.begin(), parts.end(), left + right) == parts.end();
    if (!is_new || left.size() + right.size() > 12) continue;  // each text is made in one way
    parts.push_back(left + right);
    merges.emplace_back(left, right);
  }
  for (size_t idx = merges.size(); idx > 1; --idx) {
    std::swap(merges[idx - 1], merges[random_below(idx)]);
  }
  return merges;
}

TEST(LongWords, HaveTheTokensOfThePlainRule) {
  int with_lower_rank_later = 0;
  for (int round = 0; round < 60; ++round) {
    const Merges merges = random_merges(1 + random_below(40));
    const Tokenizer tokenizer = load(one_piece(merges));
    for (const size_t length : {size_t{41}, size_t{64}, size_t{200}}) {
      std::string text;
      while (text.size() < length) {
        text.append(1 + random_below(4), static_cast<char>('a' + random_below(3)));
      }
      std::vector<std::string> got;
      for (const int32_t id : bounded_ids(tokenizer, text))
        got.push_back(*tokenizer.token_bytes(id));
      EXPECT_EQ(got, plain_rule(text, merges)) << text;
    }
    for (size_t rank = 1; rank < merges.size(); ++rank) {
      for (size_t lower = 0; lower < rank; ++lower) {
        const std::string made = merges[rank].first + merges[rank].second;
        if (merges[lower].first == made || merges[lower].second == made) ++with_lower_rank_later;
      }
    }
  }
  EXPECT_GT(with_lower_rank_later, 50);
}

// Returns merges that double blanks, up to 16.
Merges blanks() {
  Merges merges;
  for (size_t size = 1; size < 16; size *= 2) {
    merges.emplace_back(std::string(size, ' '), std::string(size, ' '));
  }
  return merges;
}

TEST(LongWords, MegabytesOfBlanks) {
  const Tokenizer tokenizer = load(one_piece(blanks()));
  const size_t count = size_t{1} << 21;
  const Ids ids = bounded_ids(tokenizer, std::string(count + 3, ' '));
  ASSERT_EQ(ids.size(), count / 16 + 2);
  EXPECT_EQ(ids[0], 259);
  EXPECT_EQ(ids[ids.size() - 2], 256);
  EXPECT_EQ(ids.back(), ' ');
}

void expect_same_verdict(const Tokenizer& tokenizer, const std::string& text) {
  const Ids all = bounded_ids(tokenizer, text);
  for (const size_t most :
       {size_t{0}, all.size() / 2, all.size() - 1, all.size(), all.size() + 1, size_t{1000000}}) {
    const auto within = tokenizer.encode_within(text, most);
    ASSERT_TRUE(within.ok());
    ASSERT_EQ(within->has_value(), all.size() <= most) << text.substr(0, 60) << " " << most;
    if (*within) {
      EXPECT_EQ(**within, all);
    }
  }
}

TEST(EncodeWithin, SaysWhatCountingSays) {
  std::vector<std::pair<const char*, json>> files;
  files.emplace_back("bytes", one_piece(blanks()));
  json words = one_piece(blanks());
  words["pre_tokenizer"]["use_regex"] = true;
  files.emplace_back("words", words);
  json composed = words;
  composed["normalizer"] = {{"type", "NFC"}};
  files.emplace_back("NFC", composed);
  json lower = words;
  lower["normalizer"] = {{"type", "Lowercase"}};
  files.emplace_back("Lowercase", lower);
  json stripped = words;  // removes any number of bytes
  stripped["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  files.emplace_back("Strip", stripped);
  json shorter = words;
  shorter["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"String", "        "}}}, {"content", "b"}};
  files.emplace_back("Replace", shorter);
  json removed = words;
  removed["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", {{{"type", "WhitespaceSplit"}}, words["pre_tokenizer"]}}};
  files.emplace_back("WhitespaceSplit", removed);
  json added = words;  // one token includes all blanks around it
  added["added_tokens"] = {
      {{"id", 260}, {"content", "<mark>"}, {"special", true}, {"lstrip", true}, {"rstrip", true}}};
  files.emplace_back("added tokens", added);
  json dropped = one_piece(blanks());  // characters without a token are dropped
  dropped["pre_tokenizer"] = nullptr;
  files.emplace_back("no bytes", dropped);
  const std::string accents =
      "e\xcc\x81\xe2\x84\xaa"
      "A\xcc\x82\xcc\x81";
  std::string many_accents;
  for (int count = 0; count < 300; ++count) many_accents += accents;
  for (const auto& [name, file] : files) {
    SCOPED_TRACE(name);
    const Tokenizer tokenizer = load(file);
    for (const std::string& text :
         {std::string("a"), std::string(1000, ' ') + "a", std::string("a b  c   d"), many_accents,
          std::string(500, ' ') + "<mark>" + std::string(500, ' ') + "x", std::string(40, 'a'),
          std::string("ab\xff\xfe") + std::string(30, ' ') + "c"}) {
      if (bounded_ids(tokenizer, text).empty()) continue;
      expect_same_verdict(tokenizer, text);
    }
  }
}

TEST(EncodeWithin, CountsWhatThePostProcessorAdds) {
  json file = one_piece({});
  file["added_tokens"] = {{{"id", 256}, {"content", "<s>"}, {"special", true}}};
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
        {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {256}}, {"tokens", {"<s>"}}}}}}};
  expect_same_verdict(load(file), "abc");
}

// 256 MiB would be refused for its size if it were examined.
TEST(EncodeWithin, ATextThatCannotFitIsNotRead) {
  const Tokenizer tokenizer = load(one_piece(blanks()));
  const std::string text((size_t{1} << 28) + 1, ' ');
  EXPECT_FALSE(tokenizer.encode(text).ok());
  const auto within = tokenizer.encode_within(text, 1000);
  ASSERT_TRUE(within.ok());
  EXPECT_FALSE(within->has_value());
}

}  // namespace
}  // namespace forerun
