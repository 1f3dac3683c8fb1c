#include "server/http/head_scanner.h"

#include "server/http/http_chars.h"
#include "server/http/http_message.h"

namespace forerun::server {
namespace {

constexpr std::string_view kLoneLf = "found a line that ends in LF alone; accepted: CRLF";
constexpr std::string_view kLoneCr = "found CR without LF; accepted: CRLF at the end of a line";

}  // namespace

bool HeadScanner::refuse(std::string_view fault) {
  fault_ = fault;
  return false;
}

HeadScanner::Verdict HeadScanner::scan(std::string_view bytes) {
  while (at_ < bytes.size()) {
    if (at_ >= max_bytes_) return Verdict::kTooLong;
    if (!take(static_cast<unsigned char>(bytes[at_]))) return Verdict::kBad;
    ++at_;
    if (place_ == Place::kBefore) blank_bytes_ = at_;
    if (is_whole_) return Verdict::kWhole;
  }
  return Verdict::kMore;
}

bool HeadScanner::take(unsigned char byte) {
  switch (place_) {
    case Place::kBefore:
      if (byte == '\r') {
        place_ = Place::kBeforeEnd;
        return true;
      }
      if (!is_token_char(static_cast<char>(byte))) {
        return refuse("found no method where the request begins");
      }
      place_ = Place::kRequestLine;
      return true;
    case Place::kBeforeEnd:
      if (byte != '\n') return refuse(kLoneCr);
      place_ = Place::kBefore;
      return true;
    case Place::kLineEnd:
      if (byte != '\n') return refuse(kLoneCr);
      place_ = Place::kLineStart;
      return true;
    case Place::kHeadEnd:
      if (byte != '\n') return refuse(kLoneCr);
      is_whole_ = true;
      return true;
    case Place::kRequestLine:
    case Place::kLineStart:
    case Place::kName:
    case Place::kValue:
      return take_in_line(byte);
  }
  return false;
}

bool HeadScanner::take_in_line(unsigned char byte) {
  if (byte == '\n') return refuse(kLoneLf);
  if (byte == '\r') {
    if (place_ == Place::kName) return refuse("found a header without a colon");
    place_ = place_ == Place::kLineStart ? Place::kHeadEnd : Place::kLineEnd;
    return true;
  }
  switch (place_) {
    case Place::kRequestLine:
      if (byte > 0x20 && byte < 0x7f) return true;
      return byte == ' ' ||
             refuse("found a byte in the request line that is not a visible ASCII character");
    case Place::kLineStart:
      if (byte == ' ' || byte == '\t') {
        return refuse("found a folded header line; accepted: one line for each header");
      }
      place_ = Place::kName;
      if (is_token_char(static_cast<char>(byte))) return true;
      return refuse("found a header whose name is empty or not a token");
    case Place::kName:
      if (byte == ':') {
        place_ = Place::kValue;
        return true;
      }
      return is_token_char(static_cast<char>(byte)) ||
             refuse("found a header's name that is not a token");
    default:
      return !is_control_char(byte) || refuse("found a control character in a header's value");
  }
}

}  // namespace forerun::server
