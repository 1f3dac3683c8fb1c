// The decoder of tokenizer.json as a stream: it takes tokens and returns text in pieces of whole
// characters.
//
// Every token's own contribution is computed once at load; the parts that depend on neighbours
// (bytes that together form a character, the space that the first token loses) are in DecodeState.
// The decoder is const and thread-safe; a state belongs to one stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "forerun/status.h"
#include "json/json_value.h"

namespace forerun::text {

// The state of a stream of tokens.
struct DecodeState {
  bool first = true;      // no token has arrived yet
  int64_t to_strip = -1;  // leading characters that may still be dropped; -1 before the first token
  std::string pending;    // the beginning of an incomplete character
};

class TokenDecoder {
 public:
  // Accepts ByteLevel, Replace (of a string), ByteFallback, Metaspace, Fuse, Strip and Sequences of
  // them as published files nest them; null joins tokens by spaces. Fails with kUnsupported for
  // others.
  static Result<TokenDecoder> build(const JsonValue& field);

  // Adds the token of the next id; ids come in order from 0, absent ones as "". `literal`: an added
  // token that the model's vocabulary lacks. It was cut out of the text unchanged, and ByteLevel
  // returns it unchanged (DeepSeek-Coder has such tokens beyond ASCII, which Hugging Face's decoder
  // mistakes for the byte alphabet and breaks).
  void add_token(std::string_view token, bool present, bool literal = false);

  // Appends the text that is certain after token `id`; ids without a token add nothing.
  //
  // Ill-formed bytes become U+FFFD: one per maximal ill-formed subpart with ByteLevel, one per byte
  // with ByteFallback.
  void push(int32_t id, DecodeState& state, std::string& out) const;

  // Returns the bytes that token `id` adds after other tokens, before ill-formed bytes are
  // replaced.
  std::optional<std::string> bytes_of(int32_t id) const;

  // Appends the text that was held back, and ends the stream.
  void finish(DecodeState& state, std::string& out) const;

 private:
  struct Replace {
    std::string pattern, content;
  };
  struct Strip {
    std::string content;  // one character
    int64_t start = 0, stop = 0;
  };
  struct Metaspace {
    std::string mark;
    bool drop_in_first = false;
  };
  using TokenStep = std::variant<Replace, Strip, Metaspace>;
  enum class Bytes : uint8_t { kNone, kFallback, kLevel };
  struct Entry {
    uint32_t offset = 0;
    uint32_t len_bytes = 0;
    int16_t byte = -1;  // the byte of a byte fallback token
    bool present = false;
  };

  static Status append(const JsonValue& field, int depth, TokenDecoder& out);
  Status append_strip(const JsonValue& field);
  std::string apply_steps(std::string_view token, bool first) const;
  void emit(std::string_view text, DecodeState& state, std::string& out) const;
  void drain(bool at_end, DecodeState& state, std::string& out) const;

  bool join_by_space_ = false;
  bool depends_on_first_ = false;  // a step treats the first token differently
  bool fused_ = false;
  Bytes bytes_ = Bytes::kNone;
  std::vector<TokenStep> steps_;  // changes to each token
  Strip strip_;                   // removed from the whole text; start 0: nothing
  std::string arena_;
  std::vector<Entry> entries_;
  std::string first_arena_;
  std::vector<Entry> first_entries_;  // entries for a first token, if depends_on_first_
};

}  // namespace forerun::text
