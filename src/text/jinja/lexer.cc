// Splits template source into tokens, including white-space control.
#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "text/jinja/syntax.h"
#include "text/utf8.h"

namespace forerun::text::jinja {
namespace {

constexpr size_t kMaxSourceBytes = size_t{1} << 20;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

// Returns the text with "\n" for every line end, and without a final one.
std::string with_plain_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') continue;
      out.push_back('\n');
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(with_plain_newlines(source)), source_(owned_) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      const size_t tag = find_tag();
      const bool at_tag = tag < source_.size();
      const char kind = at_tag ? source_[tag + 1] : ' ';
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      push_text(tag, at_tag && sign == '-', at_tag && kind != '{' && sign != '+');
      if (!at_tag) break;
      advance_to(tag + 2);
      if (sign == '-' || (sign == '+' && kind != '#')) advance_to(at_ + 1);
      Status status = kind == '#'   ? comment()
                      : kind == '{' ? tag_tokens(TokenKind::kOutputBegin, '}')
                                    : block();
      FORERUN_RETURN_IF_ERROR(status);
    }
    tokens_.push_back({TokenKind::kEnd, "", line_});
    return std::move(tokens_);
  }

 private:
  Status fail(const std::string& message) const {
    return Status(StatusCode::kInvalidArgument, "line " + std::to_string(line_) + ": " + message);
  }

  void advance_to(size_t to) {
    line_ +=
        static_cast<uint32_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  size_t find_tag() const {
    for (size_t i = source_.find('{', at_); i != std::string_view::npos;
         i = source_.find('{', i + 1)) {
      if (i + 1 >= source_.size()) break;
      const char next = source_[i + 1];
      if (next == '{' || next == '%' || next == '#') return i;
    }
    return source_.size();
  }

  // Pushes source_[at_, end) without the white space that white-space control removes.
  void push_text(size_t end, bool strip_all, bool strip_line) {
    size_t begin = at_;
    if (trim_left_) {
      while (begin < end && is_space(source_[begin])) ++begin;
    }
    size_t last = end;
    if (strip_all) {
      while (last > begin && is_space(source_[last - 1])) --last;
    } else if (strip_line) {
      size_t line_begin = last;
      while (line_begin > begin &&
             (source_[line_begin - 1] == ' ' || source_[line_begin - 1] == '\t')) {
        --line_begin;
      }
      // A newline just before the text was trimmed off by the block before it.
      const bool starts_line = line_begin == 0 || source_[line_begin - 1] == '\n';
      if (starts_line) last = line_begin;
    }
    if (begin < last) {
      tokens_.push_back(
          {TokenKind::kText, std::string(source_.substr(begin, last - begin)), line_});
    }
    trim_left_ = false;
    advance_to(end);
  }

  // Called after a block's or comment's end, at at_, once its sign has been read.
  void end_of_block(char sign) {
    trim_left_ = sign == '-';
    if (sign != '-' && sign != '+' && at_ < source_.size() && source_[at_] == '\n') {
      advance_to(at_ + 1);
    }
  }

  Status comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) {
      return fail("found a comment without its end; accepted: {# ... #}");
    }
    const char sign = end > at_ ? source_[end - 1] : ' ';
    advance_to(end + 2);
    end_of_block(sign);
    return {};
  }

  Status block() {
    size_t name = at_;
    while (name < source_.size() && is_space(source_[name])) ++name;
    if (source_.substr(name).starts_with("raw") &&
        (name + 3 >= source_.size() || !is_name(source_[name + 3]))) {
      return raw(name + 3);
    }
    return tag_tokens(TokenKind::kBlockBegin, '%');
  }

  // Handles {% raw %} ... {% endraw %}, from after the word.
  Status raw(size_t from) {
    size_t close = source_.find("%}", from);
    if (close == std::string_view::npos) {
      return fail("found a raw block whose tag has no end; accepted: {% raw %}");
    }
    const char open_sign = source_[close - 1];
    advance_to(close + 2);
    end_of_block(open_sign);
    for (size_t tag = source_.find("{%", at_); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 2)) {
      size_t word = tag + 2;
      const char sign = word < source_.size() ? source_[word] : ' ';
      if (sign == '-' || sign == '+') ++word;
      while (word < source_.size() && is_space(source_[word])) ++word;
      if (!source_.substr(word).starts_with("endraw")) continue;
      close = source_.find("%}", word);
      if (close == std::string_view::npos) break;
      push_text(tag, sign == '-', sign != '+');
      advance_to(close + 2);
      end_of_block(source_[close - 1]);
      return {};
    }
    return fail("found a raw block without its end; accepted: {% raw %} ... {% endraw %}");
  }

  // Pushes tokens up to "}}" or "%}", both included.
  Status tag_tokens(TokenKind begin, char end_char) {
    tokens_.push_back({begin, "", line_});
    int nested = 0;  // open brackets: "}}" may end two mappings
    while (true) {
      while (at_ < source_.size() && is_space(source_[at_])) advance_to(at_ + 1);
      if (at_ >= source_.size()) {
        return fail("found a tag without its end; accepted: {% ... %} or {{ ... }}");
      }
      const char c = source_[at_];
      const size_t sign_len = (c == '-' || c == '+') ? 1 : 0;
      const bool sign_fits = c != '+' || end_char == '%';
      if (sign_fits && nested == 0 && at_ + sign_len + 1 < source_.size() &&
          source_[at_ + sign_len] == end_char && source_[at_ + sign_len + 1] == '}') {
        return end_of_tag(c, sign_len, end_char);
      }
      if (c == '(' || c == '[' || c == '{') ++nested;
      if (c == ')' || c == ']' || c == '}') --nested;
      if (nested < 0) return fail(std::string("found ") + c + " without its opening bracket");
      FORERUN_RETURN_IF_ERROR(token(c));
    }
  }

  Status end_of_tag(char sign, size_t sign_len, char end_char) {
    const bool is_block = end_char == '%';
    tokens_.push_back({is_block ? TokenKind::kBlockEnd : TokenKind::kOutputEnd, "", line_});
    advance_to(at_ + sign_len + 2);
    if (is_block) {
      end_of_block(sign_len ? sign : ' ');
    } else {
      trim_left_ = sign_len != 0;
    }
    return {};
  }

  Status token(char c) {
    if (c == '"' || c == '\'') return string_literal(c);
    if (is_digit(c)) return number();
    size_t end = at_;
    if (is_name_start(c)) {
      while (end < source_.size() && is_name(source_[end])) ++end;
      push(TokenKind::kName, end);
      return {};
    }
    static constexpr std::string_view kTwo[] = {"==", "!=", "<=", ">=", "//", "**"};
    for (const std::string_view two : kTwo) {
      if (source_.substr(at_).starts_with(two)) {
        push(TokenKind::kOperator, at_ + 2);
        return {};
      }
    }
    if (std::string_view("+-*/%~<>=()[]{},.:|").find(c) == std::string_view::npos) {
      const CodePoint point = first_code_point(source_.substr(at_));
      return fail("found the character " + in_quotes(source_.substr(at_, point.len_bytes)));
    }
    push(TokenKind::kOperator, at_ + 1);
    return {};
  }

  void push(TokenKind kind, size_t end) {
    tokens_.push_back({kind, std::string(source_.substr(at_, end - at_)), line_});
    advance_to(end);
  }

  Status number() {
    size_t end = at_;
    const char letter = end + 1 < source_.size() ? static_cast<char>(source_[end + 1] | 0x20) : ' ';
    if (source_[end] == '0' && (letter == 'x' || letter == 'o' || letter == 'b')) {
      end += 2;
      while (end < source_.size() && is_name(source_[end])) ++end;
      push(TokenKind::kInteger, end);
      return {};
    }
    const auto digits = [&] {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) ++end;
    };
    digits();
    TokenKind kind = TokenKind::kInteger;
    // "a.1.0" has two indexes, not a fraction.
    const bool is_index = at_ > 0 && source_[at_ - 1] == '.';
    if (!is_index && end + 1 < source_.size() && source_[end] == '.' &&
        is_digit(source_[end + 1])) {
      kind = TokenKind::kFloat;
      ++end;
      digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
        ++exponent;
      }
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        kind = TokenKind::kFloat;
        end = exponent;
        digits();
      }
    }
    push(kind, end);
    return {};
  }

  Status string_literal(char quote) {
    std::string out;
    size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\') {
        out.push_back(source_[i]);
        continue;
      }
      if (++i >= source_.size()) break;
      FORERUN_RETURN_IF_ERROR(escape(i, out));
    }
    if (i >= source_.size()) return fail("found a string without its closing quote");
    tokens_.push_back({TokenKind::kString, std::move(out), line_});
    advance_to(i + 1);
    return {};
  }

  // source_[i] is the character after a backslash; leaves i at the escape's last character.
  Status escape(size_t& i, std::string& out) const {
    const char c = source_[i];
    static constexpr std::string_view kNames = "abfnrtv", kValues = "\a\b\f\n\r\t\v";
    if (c == '\\' || c == '\'' || c == '"') {
      out.push_back(c);
    } else if (c == '\n') {  // a line continuation
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      char32_t value = 0;
      for (size_t k = 1; k <= count; ++k) {
        const char digit = i + k < source_.size() ? source_[i + k] : ' ';
        const std::string_view hex = "0123456789abcdef";
        const size_t place = hex.find(digit >= 'A' && digit <= 'F' ? digit + 32 : digit);
        if (place == std::string_view::npos) {
          return fail("found the escape " + in_quotes(source_.substr(i - 1, k + 1)) +
                      " in a string; accepted: " + std::to_string(count) + " hex digits after \\" +
                      c);
        }
        value = value << 4 | static_cast<char32_t>(place);
      }
      if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
        return fail("found the escape " + in_quotes(source_.substr(i - 1, count + 2)) +
                    " in a string; accepted: a Unicode character");
      }
      append_utf8(value, out);
      i += count;
    } else if (c >= '0' && c <= '7') {
      char32_t value = 0;
      size_t digits = 0;
      while (digits < 3 && i + digits < source_.size() && source_[i + digits] >= '0' &&
             source_[i + digits] <= '7') {
        value = value << 3 | static_cast<char32_t>(source_[i + digits] - '0');
        ++digits;
      }
      append_utf8(value, out);
      i += digits - 1;
    } else if (const size_t place = kNames.find(c); place != std::string_view::npos) {
      out.push_back(kValues[place]);
    } else {  // Python keeps an unknown escape unchanged
      out.push_back('\\');
      out.push_back(c);
    }
    return {};
  }

  std::string owned_;
  std::string_view source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool trim_left_ = false;  // the previous tag ended in "-"
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> lex(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return Status(StatusCode::kUnsupported, "template of " + std::to_string(source.size()) +
                                                " bytes; accepted: at most 1 MiB");
  }
  if (!is_well_formed(source)) {
    return Status(StatusCode::kCorrupt, "template that is not UTF-8");
  }
  return Lexer(source).run();
}

}  // namespace forerun::text::jinja
