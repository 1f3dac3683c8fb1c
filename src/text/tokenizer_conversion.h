// Converts tokenizers between files: tokenizer.json to the vocabulary of a GGUF file and back. In
// both directions the result is loaded and compared with the original; if it would encode
// differently, the conversion fails.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "forerun/status.h"
#include "text/gguf_vocabulary.h"

namespace forerun {

// A vocabulary with the strings that it views.
struct OwnedGgufVocabulary {
  std::deque<std::string> strings;
  GgufVocabulary vocabulary;
  // Added tokens with flags lstrip, rstrip or single_word, which a GGUF file cannot hold.
  std::vector<std::string> lost_flags;
};

// Converts the bytes of a tokenizer.json and, if not empty, of a tokenizer_config.json; `name` is
// the file's name in messages. The list of tokens has at least `num_rows` entries, one for each row
// of the embedding; those without a token are called "[PAD<id>]". SentencePiece vocabularies get
// scores in the order of their merges. The caller must set `bos`, `eos`, `eot`, `eom` and `pad`,
// except for tokens that the tokenizer adds to each text.
//
// Fails with kUnsupported if a GGUF file cannot express the tokenizer.
Result<OwnedGgufVocabulary> to_gguf_vocabulary(std::string_view bytes, const std::string& name,
                                               std::string_view config_bytes, int32_t num_rows);

// Returns the text of a tokenizer.json. `name` is the GGUF file's name in messages.
Result<std::string> to_tokenizer_json_text(const GgufVocabulary& vocabulary,
                                           const std::string& name);

}  // namespace forerun
