// Detokenizer converts a stream of tokens to text incrementally.
//
// The concatenated results of push() and finish() equal Tokenizer::decode() of all the ids; no
// piece ends within a UTF-8 character. One stream, one thread. Keeps a reference to the tokenizer's
// tables, which must outlive it (moving the Tokenizer is fine).
#pragma once

#include <cstdint>
#include <string>

#include "text/token_decoder.h"
#include "text/tokenizer.h"

namespace forerun {

class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true);

  // Returns the text that is certain now; often "" while a character is incomplete.
  std::string push(int32_t id);

  // Returns the rest: an incomplete character becomes U+FFFD. Then it starts over.
  std::string finish();

 private:
  const Tokenizer::Impl* tokenizer_;
  bool skip_special_;
  text::DecodeState state_;
};

}  // namespace forerun
