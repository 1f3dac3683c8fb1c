#include "server/http/chunked_body.h"

#include <algorithm>

#include "server/http/http_chars.h"
#include "server/http/http_message.h"

namespace forerun::server {
namespace {

constexpr std::string_view kNoSize =
    "found a chunk size that is not a hexadecimal number, or is followed by more than extensions";
constexpr std::string_view kNoCrlf = "found a line that does not end in CRLF";

}  // namespace

ChunkedBody::Verdict ChunkedBody::take(std::string_view* bytes, std::string* body) {
  while (!bytes->empty()) {
    if (place_ == Place::kData) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(left_, bytes->size()));
      body->append(*bytes, 0, count);
      bytes->remove_prefix(count);
      left_ -= count;
      if (left_ == 0) place_ = Place::kDataEnd;
      continue;
    }
    const auto byte = static_cast<unsigned char>(bytes->front());
    bytes->remove_prefix(1);
    const Verdict verdict = take_byte(byte);
    if (verdict != Verdict::kMore) return verdict;
  }
  return Verdict::kMore;
}

ChunkedBody::Verdict ChunkedBody::take_byte(unsigned char byte) {
  if (++line_bytes_ > max_line_bytes_) return Verdict::kTooLong;
  switch (place_) {
    case Place::kSizeEnd:
      if (byte != '\n') return refuse(kNoCrlf);
      line_bytes_ = 0;
      return go_to(left_ == 0 ? Place::kTrailerStart : Place::kData);
    case Place::kDataEnd:
      if (byte != '\r') return refuse("found a chunk that is longer than its size");
      return go_to(Place::kDataLineEnd);
    case Place::kDataLineEnd:
      if (byte != '\n') return refuse(kNoCrlf);
      line_bytes_ = 0;
      return go_to(Place::kSizeStart);
    case Place::kTrailerEnd:
      if (byte != '\n') return refuse(kNoCrlf);
      return go_to(Place::kTrailerStart);
    case Place::kEnd:
      return byte == '\n' ? Verdict::kWhole : refuse(kNoCrlf);
    case Place::kTrailerStart:
    case Place::kTrailerName:
    case Place::kTrailerValue:
      return take_of_trailers(byte);
    default:
      return take_of_size_line(byte);
  }
}

ChunkedBody::Verdict ChunkedBody::take_of_size_line(unsigned char byte) {
  if (place_ == Place::kExtension) {
    if (byte == '\r') return go_to(Place::kSizeEnd);
    return is_control_char(byte) ? refuse("found a control character in a chunk's extensions")
                                 : Verdict::kMore;
  }
  const int digit = place_ == Place::kBlanks ? -1 : hex_value(static_cast<char>(byte));
  if (digit >= 0) {
    // The limit is far below values that overflow.
    left_ = left_ * 16 + static_cast<uint64_t>(digit);
    if (left_ > max_bytes_ - body_bytes_) return Verdict::kTooLarge;
    return go_to(Place::kSize);
  }
  if (place_ == Place::kSizeStart) return refuse(kNoSize);
  const bool is_blank = byte == ' ' || byte == '\t';
  if (!is_blank && byte != ';' && (byte != '\r' || place_ == Place::kBlanks)) {
    return refuse(kNoSize);
  }
  if (is_blank) return go_to(Place::kBlanks);
  body_bytes_ += left_;
  return go_to(byte == ';' ? Place::kExtension : Place::kSizeEnd);
}

ChunkedBody::Verdict ChunkedBody::take_of_trailers(unsigned char byte) {
  const bool is_token = is_token_char(static_cast<char>(byte));
  switch (place_) {
    case Place::kTrailerStart:
      if (byte == '\r') return go_to(Place::kEnd);
      return is_token ? go_to(Place::kTrailerName)
                      : refuse("found a trailer whose name is empty, folded or not a token");
    case Place::kTrailerName:
      if (byte == ':') return go_to(Place::kTrailerValue);
      return is_token ? Verdict::kMore : refuse("found a trailer's name that is not a token");
    default:
      if (byte == '\r') return go_to(Place::kTrailerEnd);
      return is_control_char(byte) ? refuse("found a control character in a trailer's value")
                                   : Verdict::kMore;
  }
}

}  // namespace forerun::server
