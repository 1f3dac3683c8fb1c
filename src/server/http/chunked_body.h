// Parses a request body in chunks (RFC 9112, 7.1), as strictly as head_scanner.h parses a head:
// every line ends in CRLF and has no control character. Extensions and trailers are checked and
// dropped. Parses byte by byte, so that the verdict does not depend on how the bytes were split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace forerun::server {

class ChunkedBody {
 public:
  enum class Verdict : uint8_t {
    kMore,
    kWhole,
    kBad,      // fault() has what was found and what is accepted
    kTooLong,  // a chunk's size and extensions, or the trailers together
    kTooLarge  // the body
  };

  // `max_bytes`: limit of the body. `max_line_bytes`: limit of a chunk's first line, and of all
  // trailers together.
  ChunkedBody(uint64_t max_bytes, size_t max_line_bytes)
      : max_bytes_(max_bytes), max_line_bytes_(max_line_bytes) {}

  // Takes bytes off the front of `bytes` and appends their data to `body`. After kWhole the
  // remaining bytes belong to the next request. Must not be called again after any verdict other
  // than kMore.
  Verdict take(std::string_view* bytes, std::string* body);
  std::string_view fault() const { return fault_; }

 private:
  enum class Place : uint8_t {
    kSizeStart,     // at the beginning of a chunk's size
    kSize,          // after its first digit
    kBlanks,        // after the size, before an extension
    kExtension,     // up to the end of the line
    kSizeEnd,       // the CR of that line
    kData,          // left_ bytes of data
    kDataEnd,       // after the data
    kDataLineEnd,   // the CR after the data
    kTrailerStart,  // at the beginning of a trailer or of the empty line
    kTrailerName,   // up to the colon
    kTrailerValue,  // after the colon
    kTrailerEnd,    // the CR of a trailer
    kEnd            // the CR of the empty line
  };
  Verdict take_byte(unsigned char byte);
  Verdict take_of_size_line(unsigned char byte);
  Verdict take_of_trailers(unsigned char byte);
  Verdict go_to(Place place) {
    place_ = place;
    return Verdict::kMore;
  }
  Verdict refuse(std::string_view fault) {
    fault_ = fault;
    return Verdict::kBad;
  }

  const uint64_t max_bytes_;
  const size_t max_line_bytes_;
  Place place_ = Place::kSizeStart;
  uint64_t left_ = 0;        // remaining bytes of the chunk
  uint64_t body_bytes_ = 0;  // bytes of all chunks so far, including the present one
  size_t line_bytes_ = 0;    // bytes of the line, or of all trailers
  std::string_view fault_;
};

}  // namespace forerun::server
