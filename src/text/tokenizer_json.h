// Reads tokenizer.json's bytes: vocabulary and merges into flat tables, the rest into a small JSON
// document. Vocabulary and merges are most of the file; they never become JSON objects, which keeps
// a 17 MB file at a few times its size in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"
#include "json/json_value.h"

namespace forerun {
struct GgufVocabulary;
}

namespace forerun::text {

// A range of TokenizerJson::strings.
struct StringSpan {
  uint32_t offset = 0;
  uint32_t len_bytes = 0;
};

struct VocabEntry {
  StringSpan text;
  int32_t id = 0;
};

struct MergeEntry {
  StringSpan left, right;
};

struct TokenizerJson {
  std::string name;  // name of the file in messages
  std::string strings;
  std::vector<VocabEntry> vocab;
  std::vector<MergeEntry> merges;  // in order of rank
  bool has_merges = false;
  std::shared_ptr<nlohmann::json> document;  // without model.vocab (if an object) and model.merges

  std::string_view view(StringSpan span) const {
    return std::string_view(strings).substr(span.offset, span.len_bytes);
  }
  JsonValue root() const;
};

// The highest accepted token id; real vocabularies end below 300,000.
constexpr int32_t kMaxTokenId = (1 << 22) - 1;

// Fails with kCorrupt, `name`, the place and what was found if the bytes are not such a file.
Result<TokenizerJson> parse_tokenizer_json(std::string_view bytes, std::string name);

// Converts a GGUF file's vocabulary to the content of a tokenizer.json. Fails as
// Tokenizer::from_gguf() does.
Result<TokenizerJson> to_tokenizer_json(const GgufVocabulary& vocabulary, std::string name);

}  // namespace forerun::text
