// Scans a JSON object or array byte by byte, and reports whether it is still well-formed and
// whether it is complete.
//
// Follows RFC 8259 except within strings, where only characters below U+0020 are refused: UTF-8 is
// not checked. Keeps no text.
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
    kBad,  // JSON cannot continue with this byte
  };

  // Must not be called after kEnd or kBad.
  Step push(char byte);

  // Returns how many objects and arrays are open.
  size_t depth() const { return open_.size(); }
  // Return whether a key, or a value, may begin here; white space may follow.
  bool expects_key() const { return state_ == State::kKey || state_ == State::kFirstKey; }
  bool expects_value() const { return state_ == State::kValue || state_ == State::kFirstItem; }
  // Returns whether a key is complete, so that a colon must follow.
  bool expects_colon() const { return state_ == State::kColon; }
  bool expects_next() const { return state_ == State::kNext; }

 private:
  enum class State : uint8_t {
    kStart,
    kValue,
    kFirstItem,  // first item of an array, or its end
    kKey,
    kFirstKey,  // first key of an object, or its end
    kColon,
    kNext,  // a comma or the end of the open object or array
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
  // Returns kBad if a number may not end or continue like this; otherwise the byte has been taken.
  Step in_number(char byte);

  State state_ = State::kStart;
  bool is_key_ = false;            // kString, kEscape and kHex: whether the string is a key
  int hex_left_ = 0;               // kHex: number of missing digits
  std::string_view literal_rest_;  // kLiteral: the missing rest
  std::vector<char> open_;         // the open '{' and '['
};

}  // namespace forerun::server
