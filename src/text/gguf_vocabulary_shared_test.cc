// Reads real vocabularies twice: from tokenizer.json, and from llama.cpp's conversion of it to a
// GGUF file. Both must encode and decode alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "text/gguf_vocabulary.h"
#include "text/testing.h"
#include "text/tokenizer.h"

namespace forerun {
namespace {

using nlohmann::json;

// Shared tokenizers and their pre-tokenizers in GGUF; "llama" is the model of that name.
const std::map<std::string, std::string> kPreKinds = {
    {"deepseek-coder", "deepseek-coder"},
    {"gpt2", "gpt-2"},
    {"llama2-tinyllama", "llama"},
    {"llama3.1", "llama-bpe"},
    {"mistral-v0.3", "llama"},
    {"qwen2.5", "qwen2"},
};

// A vocabulary with the strings that it views.
struct Owned {
  std::deque<std::string> strings;
  GgufVocabulary vocabulary;
  std::vector<int32_t> made_special;  // control tokens that tokenizer.json does not call special

  std::string_view keep(std::string text) { return strings.emplace_back(std::move(text)); }
};

bool looks_special(const std::string& token) {
  return token == "<pad>" || (token.starts_with("<|") && token.ends_with("|>")) ||
         (token.starts_with("<\xef\xbd\x9c") && token.ends_with("\xef\xbd\x9c>"));
}

bool is_run_of_marks(const std::string& token) {
  std::string rest = token;
  while (rest.starts_with("\xe2\x96\x81")) rest.erase(0, 3);
  return rest.empty();
}

bool is_byte_name(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
}

// Does the same as llama.cpp's convert_hf_to_gguf.py, with `num_padding` rows of the embedding
// after the last token.
std::unique_ptr<Owned> convert(const json& file, const std::string& pre, int num_padding) {
  auto out = std::make_unique<Owned>();
  GgufVocabulary& to = out->vocabulary;
  const bool is_llama = pre == "llama";
  to.model = is_llama ? "llama" : "gpt2";
  to.pre = is_llama ? "default" : pre;
  std::map<int32_t, std::string> by_id;
  std::map<int32_t, json> added;
  for (const auto& [token, id] : file["model"]["vocab"].items()) by_id[id.get<int32_t>()] = token;
  for (const json& token : file["added_tokens"]) {
    by_id[token["id"].get<int32_t>()] = token["content"].get<std::string>();
    added[token["id"].get<int32_t>()] = token;
  }
  int32_t first_piece = 0;
  for (const auto& [id, token] : by_id) {
    if (is_byte_name(token)) first_piece = id + 1;
  }
  const int32_t end_id = by_id.rbegin()->first + 1 + num_padding;
  for (int32_t id = 0; id < end_id; ++id) {
    const auto found = by_id.find(id);
    int32_t type = 1;
    float score = 0;
    std::string token = "[PAD" + std::to_string(id) + "]";
    if (found == by_id.end()) {
      type = 5;
    } else {
      token = found->second;
      if (added.contains(id)) {
        const bool special = added[id]["special"].get<bool>();
        type = special || looks_special(token) ? 3 : 4;
        if (type == 3 && !special) out->made_special.push_back(id);
      }
      if (is_llama && token == "<unk>") type = 2;
      if (is_llama && is_byte_name(token)) type = 6;
      if (type == 1) score = -static_cast<float>(id - first_piece);
      // The scores of such runs in the models of Llama 2 and Mistral.
      if (type == 1 && is_run_of_marks(token) && token.size() > 3) score = -1e9f;
    }
    to.types.push_back(type);
    if (is_llama) to.scores.push_back(score);
    to.tokens.push_back(out->keep(std::move(token)));
  }
  if (!is_llama) {
    for (const json& merge : file["model"]["merges"]) {
      to.merges.push_back(out->keep(merge.is_string() ? merge.get<std::string>()
                                                      : merge[0].get<std::string>() + " " +
                                                            merge[1].get<std::string>()));
    }
  }
  return out;
}

// A vocabulary read both ways, once for all tests.
struct Both {
  std::unique_ptr<Owned> owned;
  std::unique_ptr<Tokenizer> json, gguf;
};

const Both& load_both(const std::string& name) {
  static std::map<std::string, Both> loaded;
  const auto [entry, is_new] = loaded.try_emplace(name);
  Both& both = entry->second;
  const std::string bytes = is_new ? text::read_shared_tokenizer_json(name) : "";
  if (bytes.empty()) return both;
  both.owned = convert(nlohmann::json::parse(bytes), kPreKinds.at(name), 3);
  both.json = text::load_shared_tokenizer(name);
  if (!both.json) return both;

  // The converter takes this from tokenizer_config.json, which is not among the data.
  const auto ids = both.json->encode("");
  if (!ids.ok() || ids->size() > 1) return both;
  both.owned->vocabulary.add_bos = !ids->empty();
  if (!ids->empty()) both.owned->vocabulary.bos = ids->front();
  Result<Tokenizer> gguf = Tokenizer::from_gguf(both.owned->vocabulary);
  EXPECT_TRUE(gguf.ok()) << gguf.status().message();
  if (gguf.ok()) both.gguf = std::make_unique<Tokenizer>(std::move(gguf).value());
  return both;
}

class SharedGgufVocabulary : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Both& both = load_both(GetParam());
    if (!both.owned) {
      GTEST_SKIP() << "no " << GetParam() << " (or no xz) under " << text::shared_data_dir();
    }
    ASSERT_TRUE(both.json && both.gguf);
    owned_ = both.owned.get();
    json_ = both.json.get();
    gguf_ = both.gguf.get();
  }

  void expect_equal(const std::string& text) const {
    for (const bool parse_special : {true, false}) {
      const EncodeOptions options{.add_special_tokens = parse_special,
                                  .parse_special = parse_special};
      const auto wanted = json_->encode(text, options);
      const auto given = gguf_->encode(text, options);
      ASSERT_TRUE(wanted.ok()) << wanted.status().message();
      ASSERT_TRUE(given.ok()) << given.status().message();
      // A text that only the GGUF file calls special is not a token here.
      if (!parse_special && names_made_special(text)) continue;
      ASSERT_EQ(*given, *wanted) << text.substr(0, 200);
      ASSERT_EQ(gguf_->decode(*given, false), json_->decode(*wanted, false));
    }
  }

  bool names_made_special(const std::string& text) const {
    return std::any_of(owned_->made_special.begin(), owned_->made_special.end(), [&](int32_t id) {
      return text.find(json_->token_text(id)) != std::string::npos;
    });
  }

  const Owned* owned_ = nullptr;
  const Tokenizer* json_ = nullptr;
  const Tokenizer* gguf_ = nullptr;
};

TEST_P(SharedGgufVocabulary, ConformanceCases) {
  const auto lines = text::read_shared_lines("tokenizers/" + GetParam() + ".cases.jsonl");
  if (lines.empty()) GTEST_SKIP() << "no cases for " << GetParam();
  for (const std::string& line : lines) {
    const auto entry = json::parse(line);
    const auto ids = gguf_->encode(entry["text"].get<std::string>(), {.add_special_tokens = false});
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, entry["ids"].get<std::vector<int32_t>>()) << line;
    expect_equal(entry["text"].get<std::string>());
  }
}

TEST_P(SharedGgufVocabulary, LongTexts) {
  size_t bytes = 0;
  for (const char* file : {"text/war-and-peace.txt", "text/frankenstein.txt",
                           "prompts/demo_code.jsonl", "prompts/spec_bench.jsonl"}) {
    const std::string text = text::read_shared_file(file);
    bytes += text.size();
    expect_equal(text);
  }
  if (bytes == 0) GTEST_SKIP() << "no texts under " << text::shared_data_dir();
}

TEST_P(SharedGgufVocabulary, SpecialTokensInTexts) {
  std::mt19937 random(3);
  const char* const kBetween[] = {"", " ", "\n", "word", " two words ", "\xe2\x96\x81", "\t x"};
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int part = 0; part < 6; ++part) {
      text += kBetween[random() % std::size(kBetween)];
      // Tokens from both ends, where the special ones are.
      const int32_t id = static_cast<int32_t>(random() % 40);
      text += json_->token_text(random() % 2 ? id : json_->vocab_size() - 1 - id);
    }
    expect_equal(text);
  }
}

TEST_P(SharedGgufVocabulary, RandomIdsDecodeAlike) {
  std::mt19937 random(5);
  std::uniform_int_distribution<int32_t> any(-1, json_->vocab_size() + 3);
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> ids(50);
    for (int32_t& id : ids) id = any(random);
    ASSERT_EQ(gguf_->decode(ids, false), json_->decode(ids, false));
  }
}

TEST_P(SharedGgufVocabulary, TokensAndFlags) {
  ASSERT_EQ(gguf_->vocab_size(), json_->vocab_size());
  const std::vector<int32_t>& made = owned_->made_special;
  for (int32_t id = 0; id < json_->vocab_size(); ++id) {
    EXPECT_EQ(gguf_->token_text(id), json_->token_text(id)) << id;
    EXPECT_EQ(gguf_->token_bytes(id), json_->token_bytes(id)) << id;
    const bool is_made_special = std::find(made.begin(), made.end(), id) != made.end();
    EXPECT_EQ(gguf_->is_special(id), json_->is_special(id) || is_made_special) << id;
  }
}

TEST_P(SharedGgufVocabulary, ItsKindIsFoundInTokenizerJson) {
  const auto kind = gguf_pre_of(*json_);
  EXPECT_EQ(kind.ok(), owned_->vocabulary.model == "gpt2");
  if (kind.ok()) {
    EXPECT_EQ(*kind, owned_->vocabulary.pre);
  }
}

TEST_P(SharedGgufVocabulary, CountsAsTheSameTokenizer) {
  EXPECT_EQ(gguf_->fingerprint() == json_->fingerprint(), owned_->made_special.empty());
  for (const auto* target : {json_, gguf_}) {
    const auto* draft = target == json_ ? gguf_ : json_;
    const Status status = check_same_tokenizer(*target, *draft);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // The same vocabulary of another kind is another tokenizer.
  GgufVocabulary other = owned_->vocabulary;
  if (other.model == "llama") {
    other.add_space_prefix = false;
  } else {
    other.pre = "gpt-4o";
  }
  const Result<Tokenizer> different = Tokenizer::from_gguf(other);
  ASSERT_TRUE(different.ok()) << different.status().message();
  EXPECT_FALSE(check_same_tokenizer(*json_, *different).ok());
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& entry : kPreKinds) out.push_back(entry.first);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, SharedGgufVocabulary, ::testing::ValuesIn(names()),
                         [](const auto& param) {
                           std::string name = param.param;
                           for (char& c : name)
                             c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST(SharedGgufVocabularies, MergesOfALlamaFileAreTaken) {
  for (const std::string name : {"llama2-tinyllama", "mistral-v0.3"}) {
    const std::string bytes = text::read_shared_tokenizer_json(name);
    if (bytes.empty()) GTEST_SKIP() << "no " << name << " under " << text::shared_data_dir();
    const Both& both = load_both(name);
    ASSERT_TRUE(both.gguf);
    GgufVocabulary with_merges = both.owned->vocabulary;
    with_merges.scores.clear();
    std::deque<std::string> strings;
    const json file = json::parse(bytes);
    for (const json& merge : file["model"]["merges"]) {
      with_merges.merges.push_back(strings.emplace_back(merge.get<std::string>()));
    }
    const Result<Tokenizer> tokenizer = Tokenizer::from_gguf(with_merges);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    EXPECT_EQ(tokenizer->fingerprint(), both.gguf->fingerprint());
    // Without them, merges follow from the scores: other scores give other merges.
    GgufVocabulary upside_down = both.owned->vocabulary;
    for (float& score : upside_down.scores) score = -score;
    const Result<Tokenizer> other = Tokenizer::from_gguf(upside_down);
    ASSERT_TRUE(other.ok()) << other.status().message();
    EXPECT_NE(other->fingerprint(), both.gguf->fingerprint());
  }
}

TEST(SharedGgufVocabularies, AllOfTheFolder) {
  const std::string folder = text::shared_data_dir() + "/tokenizers";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const std::string suffix = ".tokenizer.json.xz";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(suffix)) continue;
    EXPECT_TRUE(kPreKinds.contains(name.substr(0, name.size() - suffix.size()))) << name;
  }
}

}  // namespace
}  // namespace forerun
