// Compares small tokenizers with Hugging Face's tokenizers (tools/make_text_goldens.py).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace forerun {
namespace {

using Ids = std::vector<int32_t>;

const std::string kGoldens = FORERUN_SOURCE_DIR "/tests/goldens/text/";

// Hugging Face decodes the added token "caf\u00e9" as four bytes, of which the last is not UTF-8;
// here an added token is returned unchanged (docs/decisions/0030-decoding-added-tokens.md).
std::string with_added_tokens_whole(std::string text) {
  const std::string broken = "caf\xef\xbf\xbd";
  for (size_t at = text.find(broken); at != std::string::npos; at = text.find(broken, at)) {
    text.replace(at, broken.size(), "caf\xc3\xa9");
  }
  return text;
}

TEST(TokenizerGoldens, EncodeAndDecodeAsHuggingFaceDoes) {
  std::ifstream file(kGoldens + "tokenized.jsonl", std::ios::binary);
  std::map<std::string, Tokenizer> tokenizers;
  int count = 0;
  int whole_added_tokens = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const auto golden = nlohmann::json::parse(line);
    const std::string name = golden["tokenizer"].get<std::string>();
    const std::string text = golden["text"].get<std::string>();
    SCOPED_TRACE(name + ": " + text);
    if (!tokenizers.contains(name)) {
      Result<Tokenizer> loaded = Tokenizer::load(kGoldens + "tokenizers/" + name);
      ASSERT_TRUE(loaded.ok()) << loaded.status().message();
      tokenizers.emplace(name, std::move(loaded).value());
    }
    const Tokenizer& tokenizer = tokenizers.at(name);
    const auto ids = tokenizer.encode(text, {.add_special_tokens = false});
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    const Ids expected = golden["ids"].get<Ids>();
    EXPECT_EQ(*ids, expected);
    const auto with_special = tokenizer.encode(text);
    ASSERT_TRUE(with_special.ok());
    EXPECT_EQ(*with_special,
              golden.contains("with_special") ? golden["with_special"].get<Ids>() : expected);
    const std::string decoded = golden["decoded"].get<std::string>();
    whole_added_tokens += with_added_tokens_whole(decoded) != decoded;
    EXPECT_EQ(tokenizer.decode(expected, false), with_added_tokens_whole(decoded));
    EXPECT_EQ(tokenizer.decode(expected, true),
              with_added_tokens_whole(golden.contains("decoded_plain")
                                          ? golden["decoded_plain"].get<std::string>()
                                          : decoded));
  }
  EXPECT_GT(count, 150);
  EXPECT_EQ(whole_added_tokens, 1);
}

}  // namespace
}  // namespace forerun
