// Tokenizer: text to token ids and back, as a checkpoint's tokenizer.json or the vocabulary in a
// GGUF file says.
//
// Byte-pair encoding in its two published shapes: byte-level (GPT-2, Llama 3, Qwen2, DeepSeek) and
// SentencePiece-style with byte fallback (Llama 2, Mistral). Every stage is data read from the
// file; what Forerun does not do is refused at load with the file, the field, what was found and
// what is accepted. "truncation" and "padding" in the file are ignored.
//
// Threads: all const methods may run in parallel. Returned string_views live as long as the
// tokenizer, moved or not.
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
  bool add_special_tokens = true;  // what the post-processor adds, e.g. BOS
  bool parse_special = true;       // special tokens written in the text become their ids
};

class Tokenizer {
 public:
  // `file_or_dir`: a tokenizer.json or the checkpoint directory that holds one, and perhaps a
  // tokenizer_config.json, whose "added_tokens_decoder" adds tokens and sets the flags of others.
  static Result<Tokenizer> load(const std::filesystem::path& file_or_dir);

  // Makes a tokenizer from the bytes of a tokenizer.json, and of a tokenizer_config.json if not
  // empty; the names stand for the files in messages.
  static Result<Tokenizer> from_json(std::string_view bytes, std::string name = "tokenizer.json",
                                     std::string_view config_bytes = {},
                                     std::string config_name = "tokenizer_config.json");

  // Makes a tokenizer from what a GGUF file says of its tokenizer (gguf_vocabulary.h, which tells
  // what is accepted); `name` stands for the file in messages. Nothing of `vocabulary` is kept.
  static Result<Tokenizer> from_gguf(const GgufVocabulary& vocabulary,
                                     std::string name = "model.gguf");

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // The ids of `text`; empty text gives only what the post-processor adds.
  //
  // Bytes that are no UTF-8: with a byte-level tokenizer they keep their value if the vocabulary
  // has all of them (each ill-formed run is encoded by itself and the text around it as if it stood
  // alone); else each maximal ill-formed subpart counts as U+FFFD. A character whose bytes the
  // vocabulary lacks becomes the unknown token, or, where the file has none, nothing, as with
  // Hugging Face. Fails with kInvalidArgument past 256 MiB of text and for ill-formed text where
  // there is no token for U+FFFD either, with kResourceExhausted where a regular expression of the
  // file gives up.
  //
  // Time: linear but for pieces without any boundary, which cost O(n log n).
  Result<std::vector<int32_t>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  // The same where the text has at most `max_tokens` tokens; nothing where it has more. A text
  // that has more is not read to its end, and not at all where its length alone shows it: no token
  // stands for more bytes than the longest one has, unless the file's rules remove text.
  Result<std::optional<std::vector<int32_t>>> encode_within(
      std::string_view text, size_t max_tokens, const EncodeOptions& options = {}) const;

  // The text of `ids`, always well-formed UTF-8 (broken sequences become U+FFFD). Ids without a
  // token are skipped, special tokens as well if asked.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  // Highest id + 1, added tokens included. A model's embedding may have more rows.
  int32_t vocab_size() const;

  // The token as written in the vocabulary, e.g. "Ġthe" or "<0x0A>"; empty if the id has no token.
  std::string_view token_text(int32_t id) const;
  // The bytes that the token adds to a text, not always whole characters; a special token's are
  // its name. Nothing where the id has no token.
  std::optional<std::string> token_bytes(int32_t id) const;
  bool is_special(int32_t id) const;
  // The id of a token as written in the vocabulary or the added tokens.
  std::optional<int32_t> token_id(std::string_view token) const;

  // A hash over ids, token texts, special flags, merges, normalizer and pre-tokenizer: equal for
  // two files that encode and decode alike. Post-processor and decoder are left out: they decide
  // what surrounds a text, not what a token is.
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

// Whether `draft` may propose tokens to `target`: ok, or kInvalidArgument naming the first
// difference.
//
// Accepted: equal tables; and tables that differ only in special tokens (a family's later release
// gives a reserved slot a name, or adds some at the end; such a proposal is merely never accepted).
// Refused: another text at the id of any ordinary token, an ordinary token that only one has, other
// merges, another normalizer or pre-tokenizer. Sizes of embeddings play no role.
Status check_same_tokenizer(const Tokenizer& target, const Tokenizer& draft);

// What a GGUF file with the vocabulary of a byte-level tokenizer must say in tokenizer.ggml.pre:
// the kind with the same normalizer, pre-tokenizer and use of merges (gguf_pre_kinds.h), the most
// common one of several. Whether texts start with BOS is not compared, since such a file says that
// in add_bos_token. kUnsupported, naming the fields of tokenizer.json, where there is no such kind.
// The view is of static memory.
Result<std::string_view> gguf_pre_of(const Tokenizer& tokenizer);

}  // namespace forerun
