// Tokenizer converts text to token ids and back, by a checkpoint's tokenizer.json or the vocabulary
// in a GGUF file.
//
// It implements byte-pair encoding in its two published forms: byte-level (GPT-2, Llama 3, Qwen2,
// DeepSeek) and SentencePiece-style with byte fallback (Llama 2, Mistral). Every stage is data read
// from the file; unsupported data is refused at load with the file, the field, what was found and
// what is accepted. "truncation" and "padding" in the file are ignored.
//
// Thread rules: all const methods may run in parallel. Returned string_views are valid as long as
// the tokenizer lives, moved or not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun {

class Detokenizer;
struct GgufVocabulary;
namespace text {
struct TokenizerJson;
}

struct EncodeOptions {
  bool add_special_tokens = true;  // tokens that the post-processor adds, e.g. BOS
  bool parse_special = true;       // special tokens written in the text become their ids
};

class Tokenizer {
 public:
  // `file_or_dir` is a tokenizer.json or a checkpoint directory that contains one and optionally a
  // tokenizer_config.json; its "added_tokens_decoder" adds tokens and sets the flags of others.
  static Result<Tokenizer> load(const std::filesystem::path& file_or_dir);

  // Makes a tokenizer from the bytes of a tokenizer.json, and of a tokenizer_config.json if not
  // empty; the names are those of the files in messages.
  static Result<Tokenizer> from_json(std::string_view bytes, std::string name = "tokenizer.json",
                                     std::string_view config_bytes = {},
                                     std::string config_name = "tokenizer_config.json");

  // Makes a tokenizer from the tokenizer data of a GGUF file (gguf_vocabulary.h, which lists what
  // is accepted); `name` is the file's name in messages. Keeps no reference to `vocabulary`.
  static Result<Tokenizer> from_gguf(const GgufVocabulary& vocabulary,
                                     std::string name = "model.gguf");

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Returns the ids of `text`; an empty text gives only the tokens of the post-processor.
  //
  // Bytes that are not UTF-8: with a byte-level tokenizer they keep their value if the vocabulary
  // has all of them (each ill-formed run is encoded by itself, and the text around it as if it were
  // alone); otherwise each maximal ill-formed subpart counts as U+FFFD. A character with bytes that
  // the vocabulary lacks becomes the unknown token, or, if the file has none, nothing, as in
  // Hugging Face. Fails with kInvalidArgument above 256 MiB of text and for ill-formed text if
  // there is no token for U+FFFD either, with kResourceExhausted if a regular expression of the
  // file exceeds its limit.
  //
  // Time: linear except for pieces without any boundary, which cost O(n log n).
  Result<std::vector<int32_t>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  // Does the same if the text has at most `max_tokens` tokens; returns nothing if it has more. A
  // longer text is not read to its end, and not at all if its length alone shows that: no token
  // represents more bytes than the longest one, unless the file's rules remove text.
  Result<std::optional<std::vector<int32_t>>> encode_within(
      std::string_view text, size_t max_tokens, const EncodeOptions& options = {}) const;

  // Returns the text of `ids`, always well-formed UTF-8 (ill-formed sequences become U+FFFD). Skips
  // ids without a token, and special tokens if asked to.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  // Returns the highest id + 1, added tokens included. A model's embedding may have more rows.
  int32_t vocab_size() const;

  // Returns the token as written in the vocabulary, e.g. "Ġthe" or "<0x0A>"; empty if the id has no
  // token.
  std::string_view token_text(int32_t id) const;
  // Returns the bytes that the token adds to a text, not always whole characters; for a special
  // token its name. Returns nothing if the id has no token.
  std::optional<std::string> token_bytes(int32_t id) const;
  bool is_special(int32_t id) const;
  // Returns the id of a token as written in the vocabulary or the added tokens.
  std::optional<int32_t> token_id(std::string_view token) const;

  // Returns a hash over ids, token texts, special flags, merges, normalizer and pre-tokenizer:
  // equal for two files that encode and decode alike. Excludes post-processor and decoder, which
  // change only the text around tokens.
  uint64_t fingerprint() const;

 private:
  friend class Detokenizer;
  friend Status check_same_tokenizer(const Tokenizer& target, const Tokenizer& draft);
  friend Result<std::string_view> gguf_pre_of(const Tokenizer& tokenizer);
  struct Impl;
  // `config`: a parsed tokenizer_config.json, or null.
  static Result<Tokenizer> build(const text::TokenizerJson& json,
                                 const text::TokenizerJson* config);
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

// Returns whether `draft` may propose tokens to `target`: ok, or kInvalidArgument with the first
// difference.
//
// Accepted: equal tables; and tables that differ only in special tokens (a family's later release
// names a reserved slot, or adds some at the end; such a proposal is simply never accepted).
// Refused: another text at the id of any ordinary token, an ordinary token that only one has, other
// merges, another normalizer or pre-tokenizer. Sizes of embeddings do not matter.
Status check_same_tokenizer(const Tokenizer& target, const Tokenizer& draft);

// Returns the value of tokenizer.ggml.pre for a GGUF file with the vocabulary of a byte-level
// tokenizer: the kind with the same normalizer, pre-tokenizer and use of merges (gguf_pre_kinds.h),
// the most common one of several. BOS at the start of texts is not compared, since such a file has
// add_bos_token. Fails with kUnsupported, naming the fields of tokenizer.json, if there is no such
// kind. The view is of static memory.
Result<std::string_view> gguf_pre_of(const Tokenizer& tokenizer);

}  // namespace forerun
