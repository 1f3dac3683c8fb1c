// Finds the end of a request's head and checks that its lines are valid by RFC 9112
// (2.2, 5.1, 5.2): each line ends in CRLF, none is folded, names touch their colons, and there are
// no control characters. It reads byte by byte, so that the verdict does not depend on how the
// bytes were cut into pieces. request_head.h decides what the fields mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace forerun::server {

class HeadScanner {
 public:
  enum class Verdict : uint8_t { kMore, kWhole, kBad, kTooLong };

  // `max_bytes`: how long the head may be, empty lines in front of it included.
  explicit HeadScanner(size_t max_bytes = 0) : max_bytes_(max_bytes) {}

  // `bytes`: all bytes that have come since the scanner was made, those of earlier calls included.
  // Must not be called again after any verdict other than kMore.
  Verdict scan(std::string_view bytes);

  // Whether anything but whole empty lines has come.
  bool has_begun() const { return place_ != Place::kBefore; }
  // blank_bytes(): the bytes of the empty lines in front of the head. head_end(): those bytes and
  // the head's, once the head is whole.
  size_t blank_bytes() const { return blank_bytes_; }
  size_t head_end() const { return at_; }
  // After kBad: what was found, and what is accepted.
  std::string_view fault() const { return fault_; }

 private:
  enum class Place : uint8_t {
    kBefore,       // empty lines in front
    kBeforeEnd,    // a CR among them
    kRequestLine,  // the first line
    kLineEnd,      // the CR at the end of any line
    kLineStart,    // where a field or the empty line begins
    kName,         // a field's name
    kValue,        // behind its colon
    kHeadEnd       // the CR of the empty line
  };
  // Takes one byte; false: fault_ says why not.
  bool take(unsigned char byte);
  bool take_in_line(unsigned char byte);
  bool refuse(std::string_view fault);

  size_t max_bytes_;
  size_t at_ = 0;
  size_t blank_bytes_ = 0;
  Place place_ = Place::kBefore;
  bool is_whole_ = false;
  std::string_view fault_;
};

}  // namespace forerun::server
