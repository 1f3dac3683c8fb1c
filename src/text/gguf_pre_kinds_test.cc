// Tests how each kind splits a text, against Hugging Face's tokenizers (0.23) with the same steps:
// those of the families' tokenizer.json files if these are known, else llama.cpp's patterns.
#include "text/gguf_pre_kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/gguf_vocabulary.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace forerun::text {
namespace {

struct Cut {
  std::vector<std::string_view> kinds;
  std::string pieces;  // separated by U+2502
};

const std::string kBetween = "\u2502";

const Cut kCuts[] = {
    {{"gpt-2", "phi-2", "jais", "trillion", "exaone4", "gigachat", "a.x-4.0", "mellum",
      "granite-docling", "olmo", "mpt"},
     "It│'s│ WE│'│LL│ fooBar│ │ 1234567│,│ ½│ x│²│\t\r\n\n│ e│\u0301\u0301│à│ 你好│。│漢字か"
     "なカタ│ 한국│ สว│\u0e31│สด│\u0e35│ Ǆʰ│ (│a│|│b│)│ $│5│+│a│//│\n │ ?!…│y│     │ z│"
     "\u00a0│٣٤│ 😀│ "},
    {{"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2", "command-r"},
     "It│'s│ WE│'│LL│ fooBar│  │1│2│3│4│5│6│7│,│ │½│ x│²│\t\r\n\n│ e│\u0301\u0301│à│ 你好│。"
     "│漢字かなカタ│ 한국│ สว│\u0e31│สด│\u0e35│ Ǆʰ│ (│a│|│b│)│ $│5│+│a│//│\n │ ?!…│y│     │ "
     "z│\u00a0│٣│٤│ 😀│ "},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
      "smaug-bpe", "dbrx", "glm4", "chatglm-bpe"},
     "It│'s│ WE│'LL│ fooBar│ │ │123│456│7│,│ │½│ x│²│\t\r\n\n│ e│\u0301\u0301│à│ 你好│。漢字"
     "かなカタ│ 한국│ สว│\u0e31สด│\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│\u00a0"
     "│٣٤│ 😀│ "},
    {{"jais-2"},
     "It│'s│ WE│'LL│ fooBar│ │ │123│456│7│,│ │½│ x│²│\t\r\n\n│ e│\u0301\u0301│à│ 你好│。漢字"
     "かなカタ│ 한국│ สว│\u0e31สด│\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│    │ │ z│"
     "\u00a0│٣٤│ 😀│ "},
    {{"minicpm5"},
     "It│'s│ WE│'LL│ fooBar│  │123│456│7│,│ │½│ x│²│\t\r\n\n│ e│\u0301\u0301│à│ 你好│。漢字"
     "かなカタ│ 한국│ สว│\u0e31สด│\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│\u00a0"
     "│٣٤│ 😀│ "},
    {{"qwen2", "deepseek-r1-qwen", "megrez", "kormo", "stablelm2", "hunyuan", "solar-open",
      "grok-2", "bailingmoe", "bailingmoe2", "llada-moe"},
     "It│'s│ WE│'LL│ fooBar│ │ │1│2│3│4│5│6│7│,│ │½│ x│²│\t\r\n\n│ e│\u0301\u0301│à│ 你好│。"
     "漢字かなカタ│ 한국│ สว│\u0e31สด│\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│"
     "\u00a0│٣│٤│ 😀│ "},
    {{"qwen35"},
     "It│'s│ WE│'LL│ fooBar│ │ │1│2│3│4│5│6│7│,│ │½│ x│²│\t\r\n\n│ e\u0301\u0301à│ 你好│。漢"
     "字かなカタ│ 한국│ สว\u0e31สด\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│\u00a0"
     "│٣│٤│ 😀│ "},
    {{"laguna"},
     "It│'s│ WE│'LL│ fooBar│ │ │1│2│3│4│5│6│7│,│ │½│ x│²│\t\r│\n\n│ e│\u0301\u0301│à│ 你好│"
     "。漢字かなカタ│ 한국│ สว│\u0e31สด│\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//│\n│ │ ?!…│y│     │ z"
     "│\u00a0│٣│٤│ 😀│ "},
    {{"seed-coder"},
     "It│'s│ WE│'LL│ fooBar│ │ │1│2│3│4│5│6│7│,│ │½│ x│²│\t\r\n\n│ e│\u0301\u0301│à│ 你好│。"
     "漢字かなカタ│ 한국│ สว│\u0e31สด│\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//│\n│ │ ?!…│y│     │ z│"
     "\u00a0│٣│٤│ 😀│ "},
    {{"exaone-moe"},
     "It│'s│ WE│'LL│ fooBar│ │ │1│2│3│4│5│6│7│,│ │½│ x│²│\t\r\n\n│ e\u0301\u0301à 你好│。漢"
     "字かなカタ 한국 สว\u0e31สด\u0e35 Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│\u00a0│٣│"
     "٤│ 😀│ "},
    {{"tekken"},
     "It│'s│ WE│'LL│ foo│Bar│ │ │1│2│3│4│5│6│7│,│ │½│ x│²│\t\r\n\n│ e\u0301\u0301à│ 你好│。"
     "漢字かなカタ│ 한국│ สว\u0e31สด\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│"
     "\u00a0│٣│٤│ 😀│ "},
    {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
     "It's│ WE'LL│ foo│Bar│ │ │123│456│7│,│ │½│ x│²│\t\r\n\n│ e\u0301\u0301à│ 你好│。漢字か"
     "なカタ│ 한국│ สว\u0e31สด\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│\u00a0│٣٤│"
     " 😀│ "},
    {{"tiny_aya", "cohere2moe"},
     "It's│ WE'LL│ foo│Bar│  │1│234│567│,│ │½│ x│²│\t\r\n\n│ e\u0301\u0301à│ 你好│。漢字かな"
     "カタ│ 한국│ สว\u0e31สด\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│\u00a0│٣٤│ "
     "😀│ "},
    {{"youtu"},
     "It's│ WE'LL│ foo│Bar│ │ │1│2│3│4│5│6│7│,│ │½│ x│²│\t\r\n\n│ e\u0301\u0301à│ │你好│。│"
     "漢字かなカタ│ │한국│ สว\u0e31สด\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!│…│y│     │ z│"
     "\u00a0│٣│٤│ 😀│ "},
    {{"kimi-k2"},
     "It's│ WE'LL│ foo│Bar│ │ │123│456│7│,│ │½│ x│²│\t\r\n\n│ e\u0301\u0301à│ │你好│。│漢字│"
     "かなカタ│ 한국│ สว\u0e31สด\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│\u00a0│٣"
     "٤│ 😀│ "},
    {{"deepseek-llm"},
     "It│'│s│ WE│'│LL│ fooBar│  │1│2│3│4│5│6│7│,│ │½│ x│²│\t│\r│\n│\n│ e│\u0301\u0301│à│ │你"
     "好│。│漢字かなカタ│ │한국│ │สว\u0e31สด\u0e35│ Ǆ│ʰ│ (│a│|│b│)│ $│5│+│a│//│\n│ │ ?!│…│y│"
     "     │ z│\u00a0│٣│٤│ 😀│ "},
    {{"deepseek-coder"},
     "It│'│s│ WE│'│LL│ fooBar│  │1│2│3│4│5│6│7│,│ │½│ x│²│\t│\r│\n│\n│ e│\u0301\u0301│à│ │你"
     "好│。│漢字かなカタ│ │한국│ │สว│\u0e31│สด│\u0e35│ Ǆʰ│ (│a│|│b│)│ $│5│+│a│//│\n│ │ ?!│…│"
     "y│     │ z│\u00a0│٣│٤│ 😀 "},
    {{"deepseek-v3", "hunyuan-dense", "joyai-llm"},
     "It│'s│ WE│'LL│ fooBar│  │123│456│7│,│ │½│ x│²│\t\r\n\n│ e\u0301\u0301à│ │你好│。│漢字"
     "かなカタ│ 한국│ สว\u0e31สด\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│\u00a0│٣"
     "٤│ 😀│ "},
    {{"afmoe"},
     "It│'s│ WE│'LL│ fooBar│  │1│234│567│,│ │½│ x│²│\t\r\n\n│ e\u0301\u0301à│ │你好│。│漢字"
     "かなカタ│ │한국│ สว\u0e31สด\u0e35│ Ǆʰ│ (│a│|b│)│ $│5│+a│//\n│ │ ?!…│y│     │ z│\u00a0│"
     "٣٤│ 😀│ "},
    {{"falcon"},
     "It│'│s│ĠWE│'│LL│ĠfooBar│Ġ│Ġ│123│456│7│,│ĠÂ│½│Ġx│Â│²│ĉčĊĊ│Ġe│ÌģÌģ│Ãł│Ġä│½│łå¥│½│ãĢĤ│æ│¼"
     "│¢åŃĹãģĭãģªãĤ«ãĤ¿│ĠíķľêµŃ│Ġà¸ªà¸§│à¸±│à¸ªà¸Ķ│à¸µ│ĠÇĦÊ°│Ġ│(│a│|│b│)│Ġ│$│5│+│a│//│ĊĠĠ│?!"
     "âĢ¦│y│ĠĠĠĠĠ│Ġz│Âł│Ù£Ù¤│ĠðŁĺĢ│Ġ"},
    {{"bloom", "gpt3-finnish", "poro-chat"},
     "It's│ WE'LL│ fooBar│ │ 1234567│,│ ½│ x²│\t\r\n\n│ e\u0301\u0301à│ 你好│。│漢字かなカタ"
     "│ 한국│ สว\u0e31สด\u0e35│ Ǆʰ│ (│a│|│b│)│ $5+a//│\n  ?!…│y│     │ z│\u00a0│٣٤│ 😀│ "},
    {{"viking"},
     "It's│ WE'LL│ fooBar│ │ │1│2│3│4│5│6│7│,│ │½│ x│²│\t\r\n\n│ e\u0301\u0301à│ 你好│。│漢"
     "字かなカタ│ 한국│ สว\u0e31สด\u0e35│ Ǆʰ│ (│a│|│b│)│ $│5│+a//│\n  ?!…│y│     │ z│\u00a0│"
     "٣│٤│ 😀│ "},
    {{"superbpe"},
     "It's WE'LL fooBar  │1│234│567│, │½│ x│²│\t\r\n\n e\u0301\u0301à 你好。漢字かなカタ 한"
     "국 สว\u0e31สด\u0e35 Ǆʰ (a|b) $│5│+a//\n  ?!…y      z\u00a0│٣٤│ 😀 "},
    {{"default"},
     "It│'│s│ WE│'│LL│ fooBar│ │ │123│456│7│,│ │½│ x│²│\t\r\n\n│ e│\u0301\u0301│à│ 你好│。│"
     "漢字かなカタ│ 한국│ สว│\u0e31│สด│\u0e35│ Ǆʰ│ │(│a│|│b│)│ │$│5│+│a│//│\n  │?!…│y│     │"
     " z│\u00a0│٣٤│ 😀│ "},
};

std::string without(std::string text, const std::string& part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
  return text;
}

std::string cut(const GgufPreKind& kind, const std::string& text) {
  const nlohmann::json field = pre_tokenizer_json(kind);
  const auto pre_tokenizer = PreTokenizer::build(JsonValue(&field));
  EXPECT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status().message();
  if (!pre_tokenizer.ok()) return "";
  Regex::Matcher matcher;
  Pieces pieces;
  const Status status = pre_tokenizer->apply(text, true, matcher, pieces);
  EXPECT_TRUE(status.ok()) << status.message();
  std::string joined;
  for (const PieceSpan& span : pieces.spans) {
    if (!joined.empty()) joined += kBetween;
    joined += pieces.text.substr(span.begin, span.end - span.begin);
  }
  return joined;
}

TEST(GgufPreKinds, CutAsTheirFamilies) {
  const std::string text = without(kCuts[0].pieces, kBetween);
  size_t compared = 0;
  for (const Cut& wanted : kCuts) {
    for (const std::string_view name : wanted.kinds) {
      SCOPED_TRACE(name);
      const GgufPreKind* const kind = find_gguf_pre_kind(name);
      ASSERT_NE(kind, nullptr);
      EXPECT_EQ(cut(*kind, text), wanted.pieces);
      ++compared;
    }
  }
  EXPECT_EQ(compared, gguf_pre_kinds().size());
}

// Returns a tokenizer with all bytes and "ab" as tokens.
Tokenizer tokenizer_of(std::string_view pre) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    tokens.push_back(to_byte_alphabet(std::string_view(&c, 1)));
  }
  tokens.push_back("ab");
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = pre;
  vocabulary.tokens.assign(tokens.begin(), tokens.end());
  vocabulary.types.assign(tokens.size(), 1);
  vocabulary.merges = {"a b"};
  vocabulary.add_bos = false;
  auto tokenizer = Tokenizer::from_gguf(vocabulary);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

TEST(GgufPreKinds, AreFoundByWhatTokenizersDo) {
  std::map<std::string_view, std::string_view> found;
  for (const GgufPreKind& kind : gguf_pre_kinds()) {
    SCOPED_TRACE(kind.name);
    const Tokenizer tokenizer = tokenizer_of(kind.name);
    const auto name = gguf_pre_of(tokenizer);
    ASSERT_TRUE(name.ok()) << name.status().message();
    found[kind.name] = *name;
    // Written to a file under that name, the tokenizer is the same.
    EXPECT_EQ(tokenizer_of(*name).fingerprint(), tokenizer.fingerprint());
  }
  for (const char* const name : {"gpt-2", "smollm", "command-r", "llama-bpe", "smaug-bpe", "qwen2",
                                 "gpt-4o", "tekken", "deepseek-v3", "falcon", "default"}) {
    EXPECT_EQ(found[name], name);
  }
  EXPECT_EQ(found["starcoder"], "smollm");
  EXPECT_EQ(found["llama3"], "llama-bpe");
  EXPECT_EQ(found["phi-2"], "gpt-2");
}

std::string refusal_of(const char* normalizer, const char* steps, bool ignore_merges) {
  const std::string json = std::string("{\"model\":{\"type\":\"BPE\",\"ignore_merges\":") +
                           (ignore_merges ? "true" : "false") +
                           ",\"vocab\":{\"a\":0},\"merges\":[]},\"normalizer\":" + normalizer +
                           ",\"pre_tokenizer\":" + steps + "}";
  const auto tokenizer = Tokenizer::from_json(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  if (!tokenizer.ok()) return "";
  const auto name = gguf_pre_of(*tokenizer);
  EXPECT_FALSE(name.ok());
  return name.status().message();
}

TEST(GgufPreKinds, OtherTokenizersAreRefused) {
  const char* const gpt2 = R"({"type":"ByteLevel","add_prefix_space":false})";
  const char* const nfkc = R"({"type":"NFKC"})";
  EXPECT_NE(refusal_of("null", gpt2, true).find("ignore_merges: found true"), std::string::npos);
  EXPECT_NE(refusal_of(nfkc, gpt2, false).find("NFKC"), std::string::npos);
  EXPECT_NE(refusal_of("null", R"({"type":"ByteLevel","add_prefix_space":true})", false)
                .find("; accepted: "),
            std::string::npos);
  EXPECT_NE(refusal_of("null", "null", false).find("pre_tokenizer: found "), std::string::npos);
}

}  // namespace
}  // namespace forerun::text
