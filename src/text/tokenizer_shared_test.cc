// Tests real vocabularies: conformance cases, and a round trip of every prompt.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/testing.h"
#include "text/tokenizer.h"

namespace forerun {
namespace {

class SharedTokenizer : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tokenizer_ = text::load_shared_tokenizer(GetParam());
    if (!tokenizer_) {
      // A file that exists but is refused is a failure, not a reason to skip.
      ASSERT_TRUE(text::read_shared_tokenizer_json(GetParam()).empty());
      GTEST_SKIP() << "no " << GetParam() << " (or no xz) under " << text::shared_data_dir();
    }
  }

  // Collects every string anywhere in a JSON value.
  static void collect(const nlohmann::json& value, std::vector<std::string>& out) {
    if (value.is_string()) out.push_back(value.get<std::string>());
    if (value.is_structured()) {
      for (const auto& part : value) collect(part, out);
    }
  }

  // Mistral's tokenizer gives "x" and " x" the same ids: its first leading space does not return.
  void expect_round_trip(const std::vector<int32_t>& ids, const std::string& text) const {
    const bool loses_space = GetParam() == "mistral-v0.3" && text.starts_with(' ');
    EXPECT_TRUE(tokenizer_->decode(ids) == text.substr(loses_space ? 1 : 0))
        << text.substr(0, 200) << "\n became \n"
        << tokenizer_->decode(ids).substr(0, 200);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(SharedTokenizer, ConformanceCases) {
  const auto lines = text::read_shared_lines("tokenizers/" + GetParam() + ".cases.jsonl");
  if (lines.empty()) GTEST_SKIP() << "no cases for " << GetParam();
  for (const std::string& line : lines) {
    const auto entry = nlohmann::json::parse(line);
    const std::string text = entry["text"].get<std::string>();
    const auto ids = tokenizer_->encode(text, {.add_special_tokens = false});
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, entry["ids"].get<std::vector<int32_t>>()) << "'" << text << "'";
  }
}

TEST_P(SharedTokenizer, PromptsRoundTrip) {
  size_t count = 0;
  for (const char* file : {"demo_code", "demo_prose", "humaneval", "spec_bench"}) {
    for (const auto& line : text::read_shared_lines("prompts/" + std::string(file) + ".jsonl")) {
      std::vector<std::string> strings;
      collect(nlohmann::json::parse(line), strings);
      for (const std::string& text : strings) {
        const auto ids = tokenizer_->encode(text);
        ASSERT_TRUE(ids.ok()) << ids.status().message();
        expect_round_trip(*ids, text);
        ++count;
      }
    }
  }
  if (count == 0) GTEST_SKIP() << "no prompts under " << text::shared_data_dir();
}

TEST_P(SharedTokenizer, StreamEqualsDecode) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int32_t> any(-1, tokenizer_->vocab_size());
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> ids(40);
    for (int32_t& id : ids) id = any(random);
    const bool skip_special = round % 2 == 0;
    Detokenizer stream(*tokenizer_, skip_special);
    std::string text;
    for (const int32_t id : ids) {
      const std::string piece = stream.push(id);
      ASSERT_TRUE(nlohmann::json(piece).dump().size() >= 2);  // throws on half a character
      text += piece;
    }
    text += stream.finish();
    ASSERT_EQ(text, tokenizer_->decode(ids, skip_special));
  }
}

TEST_P(SharedTokenizer, BytesThatAreNoUtf8) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(200, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(random() % (round % 2 ? 256 : 4) + (round % 2 ? 0 : 0xee));
    const auto ids = tokenizer_->encode(bytes);
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    for (const int32_t id : *ids) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, tokenizer_->vocab_size());
    }
    ASSERT_NO_THROW(nlohmann::json(tokenizer_->decode(*ids)).dump());
  }
}

TEST_P(SharedTokenizer, LongTextsOfOneKindTakeNoLongerThanTheirLength) {
  for (const std::string unit : {"a", " ", "\n", "=", "\xe6\xbc\xa2", "ab", "0"}) {
    std::string text;
    while (text.size() < 300'000) text += unit;
    const auto begin = std::chrono::steady_clock::now();
    const auto ids = tokenizer_->encode(text, {.add_special_tokens = false});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    expect_round_trip(*ids, text);
    EXPECT_LT(took.count(), 20.0) << "'" << unit << "'";
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedTokenizer,
                         ::testing::Values("llama3.1", "qwen2.5", "deepseek-coder", "gpt2",
                                           "llama2-tinyllama", "mistral-v0.3"),
                         [](const auto& param) {
                           std::string name = param.param;
                           for (char& c : name)
                             c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST(SharedTokenizers, DifferentFamiliesAreRefused) {
  const auto llama = text::load_shared_tokenizer("llama3.1");
  const auto qwen = text::load_shared_tokenizer("qwen2.5");
  if (!llama || !qwen) GTEST_SKIP() << "no tokenizers under " << text::shared_data_dir();
  EXPECT_TRUE(check_same_tokenizer(*llama, *llama).ok());
  const Status status = check_same_tokenizer(*llama, *qwen);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("token "), std::string::npos) << status.message();
}

}  // namespace
}  // namespace forerun
