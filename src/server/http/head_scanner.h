// Finds the end of a request's head and checks that its lines are valid by RFC 9112 (2.2, 5.1,
// 5.2): each line ends in CRLF, none is folded, no white space precedes a colon, and there are no
// control characters. It scans byte by byte, so that the verdict does not depend on how the bytes
// were split. request_head.h interprets the fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace forerun::server {

class HeadScanner {
 public:
  enum class Verdict : uint8_t { kMore, kWhole, kBad, kTooLong };

  // `max_bytes`: limit of the head, including empty lines before it.
  explicit HeadScanner(size_t max_bytes = 0) : max_bytes_(max_bytes) {}

  // `bytes`: all bytes since the scanner was made, including those of earlier calls. Must not be
  // called again after any verdict other than kMore.
  Verdict scan(std::string_view bytes);

  // Returns whether any bytes other than whole empty lines have arrived.
  bool has_begun() const { return place_ != Place::kBefore; }
  // blank_bytes() returns the bytes of the empty lines before the head; head_end() those bytes and
  // the head's, once the head is whole.
  size_t blank_bytes() const { return blank_bytes_; }
  size_t head_end() const { return at_; }
  // Returns, after kBad, what was found and what is accepted.
  std::string_view fault() const { return fault_; }

 private:
  enum class Place : uint8_t {
    kBefore,       // empty lines before the head
    kBeforeEnd,    // the CR of such a line
    kRequestLine,  // the first line
    kLineEnd,      // the CR at the end of any line
    kLineStart,    // at the beginning of a field or of the empty line
    kName,         // a field's name
    kValue,        // after its colon
    kHeadEnd       // the CR of the empty line
  };
  // Takes one byte; returns false with the reason in fault_.
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
