#include "server/output/json_scanner.h"

namespace forerun::server {
namespace {

// Deeper than any real arguments, and within the limits of JSON parsers.
constexpr size_t kMaxDepth = 256;

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }
bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
bool is_hex(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

}  // namespace

JsonScanner::Step JsonScanner::enter(State state) {
  state_ = state;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::begin_value(char byte) {
  switch (byte) {
    case '{':
    case '[':
      if (open_.size() == kMaxDepth) return Step::kBad;
      open_.push_back(byte);
      return enter(byte == '{' ? State::kFirstKey : State::kFirstItem);
    case '"':
      is_key_ = false;
      return enter(State::kString);
    case 't':
      literal_rest_ = "rue";
      return enter(State::kLiteral);
    case 'f':
      literal_rest_ = "alse";
      return enter(State::kLiteral);
    case 'n':
      literal_rest_ = "ull";
      return enter(State::kLiteral);
    case '-':
      return enter(State::kMinus);
    case '0':
      return enter(State::kZero);
    default:
      return is_digit(byte) ? enter(State::kDigits) : Step::kBad;
  }
}

JsonScanner::Step JsonScanner::close(char byte) {
  if (open_.empty() || open_.back() != (byte == '}' ? '{' : '[')) return Step::kBad;
  open_.pop_back();
  state_ = State::kNext;
  return open_.empty() ? Step::kEnd : Step::kMore;
}

JsonScanner::Step JsonScanner::end_string() {
  return enter(is_key_ ? State::kColon : State::kNext);
}

JsonScanner::Step JsonScanner::in_number(char byte) {
  const bool digit = is_digit(byte);
  switch (state_) {
    case State::kMinus:
      if (!digit) return Step::kBad;
      return enter(byte == '0' ? State::kZero : State::kDigits);
    case State::kPoint:
      return digit ? enter(State::kFraction) : Step::kBad;
    case State::kExponent:
      if (byte == '+' || byte == '-') return enter(State::kExponentSign);
      return digit ? enter(State::kExponentDigits) : Step::kBad;
    case State::kExponentSign:
      return digit ? enter(State::kExponentDigits) : Step::kBad;
    default:
      break;
  }
  // A number may end here.
  if (digit) return state_ == State::kZero ? Step::kBad : Step::kMore;
  const bool is_whole = state_ == State::kZero || state_ == State::kDigits;
  if (byte == '.' && is_whole) return enter(State::kPoint);
  if ((byte == 'e' || byte == 'E') && state_ != State::kExponentDigits) {
    return enter(State::kExponent);
  }
  state_ = State::kNext;
  return push(byte);
}

JsonScanner::Step JsonScanner::push(char byte) {
  switch (state_) {
    case State::kStart:
      return byte == '{' || byte == '[' ? begin_value(byte) : Step::kBad;
    case State::kValue:
      return is_space(byte) ? Step::kMore : begin_value(byte);
    case State::kFirstItem:
      if (is_space(byte)) return Step::kMore;
      return byte == ']' ? close(byte) : begin_value(byte);
    case State::kKey:
    case State::kFirstKey:
      if (is_space(byte)) return Step::kMore;
      if (byte == '}' && state_ == State::kFirstKey) return close(byte);
      if (byte != '"') return Step::kBad;
      is_key_ = true;
      return enter(State::kString);
    case State::kColon:
      if (is_space(byte)) return Step::kMore;
      return byte == ':' ? enter(State::kValue) : Step::kBad;
    case State::kNext:
      if (is_space(byte)) return Step::kMore;
      if (byte == '}' || byte == ']') return close(byte);
      if (byte != ',') return Step::kBad;
      return enter(open_.back() == '{' ? State::kKey : State::kValue);
    case State::kString:
      if (byte == '"') return end_string();
      if (byte == '\\') return enter(State::kEscape);
      return static_cast<unsigned char>(byte) < 0x20 ? Step::kBad : Step::kMore;
    case State::kEscape:
      hex_left_ = 4;
      if (byte == 'u') return enter(State::kHex);
      return std::string_view("\"\\/bfnrt").find(byte) != std::string_view::npos
                 ? enter(State::kString)
                 : Step::kBad;
    case State::kHex:
      if (!is_hex(byte)) return Step::kBad;
      return --hex_left_ == 0 ? enter(State::kString) : Step::kMore;
    case State::kLiteral:
      if (byte != literal_rest_.front()) return Step::kBad;
      literal_rest_.remove_prefix(1);
      return literal_rest_.empty() ? enter(State::kNext) : Step::kMore;
    default:
      return in_number(byte);
  }
}

}  // namespace forerun::server
