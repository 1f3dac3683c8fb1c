// The kinds of byte-level pre-tokenizers that GGUF files name in tokenizer.ggml.pre.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace forerun::text {

struct GgufPreKind {
  enum class Digits : uint8_t { kAsSplit, kSingle };
  // Whether ByteLevel cuts by GPT-2's pattern.
  enum class Words : uint8_t { kAsSplit, kGpt2 };

  std::string_view name;
  bool nfc = false;                            // the normalizer is NFC; else there is none
  std::span<const std::string_view> patterns;  // one Split each, in order, isolating its matches
  Digits digits = Digits::kAsSplit;            // behind the patterns
  Words words = Words::kAsSplit;               // behind the digits
  bool ignore_merges = false;                  // a word that is a token is that token
  bool add_bos = false;                        // where the file does not say
};

// Null where there is no such kind.
const GgufPreKind* find_gguf_pre_kind(std::string_view name);

// The kind with the normalizer, the pre-tokenizer and the ignore_merges of a tokenizer.json,
// however it spells them; of several kinds, the one that llama.cpp's converter names. Null where
// there is none.
const GgufPreKind* find_gguf_pre_kind_of(const nlohmann::json& tokenizer_json);

// "default, gpt-2, ...".
std::string gguf_pre_kind_names();

// The fields "normalizer" and "pre_tokenizer" of the family's tokenizer.json.
nlohmann::json normalizer_json(const GgufPreKind& kind);
nlohmann::json pre_tokenizer_json(const GgufPreKind& kind);

}  // namespace forerun::text
