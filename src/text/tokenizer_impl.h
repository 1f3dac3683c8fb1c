// The implementation of Tokenizer, shared only by tokenizer.cc and tokenizer_compare.cc.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/token_table.h"
#include "text/tokenizer.h"

namespace forerun {

namespace text {

// One encoder's working memory, kept between calls for its word cache.
struct EncodeScratch {
  Regex::Matcher matcher;
  Normalizer::Scratch normalizer;
  Pieces pieces;
  Bpe::Scratch bpe;
  std::vector<Segment> segments, normalized_segments;
  size_t max_tokens = SIZE_MAX;  // encoding stops and sets is_over once there are more
  bool is_over = false;
};

}  // namespace text

struct Tokenizer::Impl {
  Impl(text::Bpe model, text::TokenDecoder token_decoder)
      : bpe(std::move(model)), decoder(std::move(token_decoder)) {}

  // Returns whether bytes of `text` that are not UTF-8 can be encoded one by one; otherwise they
  // are read as U+FFFD.
  bool keeps_ill_formed(std::string_view text) const;
  Status encode_bytes(std::string_view text, bool parse_special, text::EncodeScratch& scratch,
                      std::vector<int32_t>& out) const;
  Status encode_replaced(std::string_view text, bool parse_special, text::EncodeScratch& scratch,
                         std::vector<int32_t>& out) const;
  Status encode_text(std::string_view text, bool starts_input, bool parse_special,
                     text::EncodeScratch& scratch, std::vector<int32_t>& out) const;
  Status encode_plain(std::string_view text, bool starts_input, text::EncodeScratch& scratch,
                      std::vector<int32_t>& out) const;

  // Returns the ids of `text` if there are at most `max_tokens`; sets `is_over` if there are more.
  Result<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions& options,
                                      size_t max_tokens, bool* is_over) const;
  // Returns whether any text of `text_bytes` bytes has more than `max_tokens` tokens.
  bool is_certainly_over(size_t text_bytes, size_t max_tokens) const;
  void measure_longest_token(const std::vector<text::AddedToken>& raw,
                             const std::vector<text::AddedToken>& normalized);

  std::unique_ptr<text::EncodeScratch> take_scratch() const;
  void return_scratch(std::unique_ptr<text::EncodeScratch> scratch) const;

  text::Bpe bpe;
  text::TokenTable tokens;  // the model's tokens and the added ones
  std::vector<text::AddedToken> added;
  std::vector<uint8_t> special;  // indexed by id
  text::AddedTokenFinder raw_finder, normalized_finder;
  text::Normalizer normalizer;
  text::PreTokenizer pre_tokenizer;
  text::PostProcessor post_processor;
  text::TokenDecoder decoder;
  std::string splitting;  // normalizer and pre-tokenizer in canonical JSON
  uint64_t fingerprint = 0;
  // The largest number of a text's bytes that one token can represent; 0: there is no such number.
  size_t longest_token_bytes = 0;

  // Working memory of idle encoders.
  mutable std::mutex scratch_mutex;
  mutable std::vector<std::unique_ptr<text::EncodeScratch>> idle_scratch;
};

}  // namespace forerun
