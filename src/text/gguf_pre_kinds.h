// The kinds of byte-level pre-tokenizers that GGUF files name in tokenizer.ggml.pre.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace forerun::text {

// A step of a pre-tokenizer; it cuts every piece that the step before it has left.
struct GgufPreStep {
  enum class Type : uint8_t {
    kSplit,        // isolates the matches of `pattern`
    kDigit,        // isolates every digit
    kDigitRuns,    // isolates runs of digits
    kPunctuation,  // isolates runs of punctuation
    kGpt2,         // cuts by GPT-2's pattern and spells the bytes of each piece
  };
  Type type = Type::kSplit;
  std::string_view pattern;  // pattern of kSplit
};

struct GgufPreKind {
  std::string_view name;
  std::span<const GgufPreStep> steps;  // without the spelling of bytes that ends all of them
  bool nfc = false;                    // the normalizer is NFC; else there is none
  bool ignore_merges = false;          // a word that is a token is that token
  bool add_bos = false;                // where the file does not say
};

// All kinds; where several are alike, the preferred one first.
std::span<const GgufPreKind> gguf_pre_kinds();

// Null where there is no such kind.
const GgufPreKind* find_gguf_pre_kind(std::string_view name);

// "gpt-2, llama-bpe, ...".
std::string gguf_pre_kind_names();

// The fields "normalizer" and "pre_tokenizer" of the family's tokenizer.json.
nlohmann::json normalizer_json(const GgufPreKind& kind);
nlohmann::json pre_tokenizer_json(const GgufPreKind& kind);

}  // namespace forerun::text
