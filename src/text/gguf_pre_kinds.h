// The kinds of byte-level pre-tokenizers that tokenizer.ggml.pre of a GGUF file may name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace forerun::text {

// A step of a pre-tokenizer; it splits every piece of the previous step.
struct GgufPreStep {
  enum class Type : uint8_t {
    kSplit,        // isolates the matches of `pattern`
    kDigit,        // isolates every digit
    kDigitRuns,    // isolates runs of digits
    kPunctuation,  // isolates runs of punctuation
    kGpt2,         // splits by GPT-2's pattern and writes each piece in the byte alphabet
  };
  Type type = Type::kSplit;
  std::string_view pattern;  // pattern of kSplit
};

struct GgufPreKind {
  std::string_view name;
  std::span<const GgufPreStep> steps;  // without the byte alphabet, the last step of all kinds
  bool nfc = false;                    // the normalizer is NFC; otherwise there is none
  bool ignore_merges = false;          // a word that is a token becomes that token
  bool add_bos = false;                // default if the file does not say
};

// Returns all kinds; of several equal ones, the preferred one first.
std::span<const GgufPreKind> gguf_pre_kinds();

// Returns null if there is no such kind.
const GgufPreKind* find_gguf_pre_kind(std::string_view name);

// Returns "gpt-2, llama-bpe, ...".
std::string gguf_pre_kind_names();

// Return the fields "normalizer" and "pre_tokenizer" of the family's tokenizer.json.
nlohmann::json normalizer_json(const GgufPreKind& kind);
nlohmann::json pre_tokenizer_json(const GgufPreKind& kind);

}  // namespace forerun::text
