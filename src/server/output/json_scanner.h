// Reads a JSON object or array a byte at a time: is it still well-formed, is it complete?
//
// Follows RFC 8259 but for the characters within strings, of which only those below U+0020 are
// refused: UTF-8 is not checked. Keeps no text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace forerun::server {

class JsonScanner {
 public:
  enum class Step : uint8_t {
    kMore,
    kEnd,  // the byte closed the object or array
    kBad,  // no JSON goes on with this byte
  };

  // Must not be called after kEnd or kBad.
  Step push(char byte);

  // How many objects and arrays are open.
  size_t depth() const { return open_.size(); }
  // Whether a key, or a value, may begin here; white space may go on.
  bool expects_key() const { return state_ == State::kKey || state_ == State::kFirstKey; }
  bool expects_value() const { return state_ == State::kValue || state_ == State::kFirstItem; }
  // Whether a key is complete, so that a colon must follow.
  bool expects_colon() const { return state_ == State::kColon; }
  bool expects_next() const { return state_ == State::kNext; }

 private:
  enum class State : uint8_t {
    kStart,
    kValue,
    kFirstItem,  // first item of an array, which may be empty
    kKey,
    kFirstKey,  // first key of an object, which may be empty
    kColon,
    kNext,  // a comma or the end of what is open
    kString,
    kEscape,
    kHex,
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
    kLiteral,
  };

  Step enter(State state);
  Step begin_value(char byte);
  Step close(char byte);
  Step end_string();
  // kBad where a number may not end or go on so; otherwise the byte has been taken.
  Step in_number(char byte);

  State state_ = State::kStart;
  bool is_key_ = false;            // kString, kEscape and kHex: whether the string is a key
  int hex_left_ = 0;               // kHex: digits that are missing
  std::string_view literal_rest_;  // kLiteral: what is missing
  std::vector<char> open_;         // '{' and '['
};

}  // namespace forerun::server
