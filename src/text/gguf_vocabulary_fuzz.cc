// Fuzzes small GGUF vocabularies with any bytes: they are refused with a message or loaded, and
// encoding and decoding must then be consistent.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace {

// Takes numbers from the front of the bytes.
struct Source {
  std::string_view bytes;

  uint8_t byte() {
    if (bytes.empty()) return 0;
    const uint8_t value = static_cast<uint8_t>(bytes[0]);
    bytes.remove_prefix(1);
    return value;
  }
  std::optional<bool> flag() {
    const uint8_t value = byte() % 4;
    return value < 2 ? std::nullopt : std::optional<bool>(value == 3);
  }
  std::optional<int32_t> id() {
    const uint8_t value = byte();
    return value < 128 ? std::nullopt : std::optional<int32_t>(value - 130);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* const kModels[] = {"gpt2", "llama", "llama", "bert"};
  const char* const kPres[] = {"default",  "smollm",       "llama-bpe",      "qwen2",
                               "tekken",   "falcon",       "gpt-4o",         "kimi-k2",
                               "afmoe",    "deepseek-llm", "viking",         "tiny_aya",
                               "superbpe", "youtu",        "deepseek-coder", "?"};
  Source source{std::string_view(reinterpret_cast<const char*>(data), size)};
  forerun::GgufVocabulary vocabulary;
  vocabulary.model = kModels[source.byte() % 4];
  vocabulary.pre = kPres[source.byte() % std::size(kPres)];
  vocabulary.add_bos = source.flag();
  vocabulary.add_eos = source.flag();
  vocabulary.add_space_prefix = source.flag();
  for (auto* id : {&vocabulary.bos, &vocabulary.eos, &vocabulary.eot, &vocabulary.eom,
                   &vocabulary.unk, &vocabulary.pad}) {
    *id = source.id();
  }
  // Lines of tokens preceded by type and score; after an empty line, lines of merges.
  std::string_view lines = source.bytes;
  bool in_merges = false;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (in_merges) {
      vocabulary.merges.push_back(line);
    } else if (line.empty()) {
      in_merges = true;
    } else {
      const uint8_t first = static_cast<uint8_t>(line[0]);
      vocabulary.types.push_back(first % 8);
      vocabulary.scores.push_back(static_cast<float>(first / 8) - 16);
      vocabulary.tokens.push_back(line.substr(1));
    }
  }
  const auto tokenizer = forerun::Tokenizer::from_gguf(vocabulary);
  if (!tokenizer.ok()) {
    if (tokenizer.status().message().find('\n') != std::string::npos) std::abort();
    return 0;
  }
  const std::string texts[] = {"Hello,  w\xc3\xb6rld 123 \xe6\xbc\xa2\xe5\xad\x97\n\n",
                               "\xff\xf0\x9f", std::string(source.bytes.substr(0, 512))};
  for (const std::string& text : texts) {
    const auto ids = tokenizer->encode(text);
    if (!ids.ok()) continue;
    forerun::Detokenizer stream(*tokenizer);
    std::string streamed;
    for (const int32_t id : *ids) {
      if (id < 0 || static_cast<size_t>(id) >= vocabulary.tokens.size()) std::abort();
      streamed += stream.push(id);
    }
    streamed += stream.finish();
    if (streamed != tokenizer->decode(*ids)) std::abort();
  }
  return 0;
}
