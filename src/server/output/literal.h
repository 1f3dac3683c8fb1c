// Literal checks byte by byte that the input is a fixed text. White space may come before it.
#pragma once

#include <cstdint>
#include <string_view>

namespace forerun::server {

inline bool is_json_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

class Literal {
 public:
  enum class Step : uint8_t { kMore, kEnd, kBad };

  // `text` must outlive the object.
  explicit Literal(std::string_view text) : text_(text) {}

  Step push(char byte) {
    if (matched_bytes_ == 0 && is_json_space(byte)) return Step::kMore;
    if (byte != text_[matched_bytes_]) return Step::kBad;
    return ++matched_bytes_ == text_.size() ? Step::kEnd : Step::kMore;
  }

  bool has_begun() const { return matched_bytes_ > 0; }

 private:
  std::string_view text_;
  size_t matched_bytes_ = 0;
};

}  // namespace forerun::server
