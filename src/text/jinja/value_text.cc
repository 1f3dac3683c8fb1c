// str() and repr() as Python writes them.
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "text/jinja/value.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace forerun::text::jinja {
namespace {

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  // Python switches to an exponent below 1e-4 and from 1e16 on.
  const double magnitude = std::fabs(number);
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, format);
  std::string text(buffer.data(), end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

// What str.isprintable is false for: other than letters, marks, numbers, punctuation, symbols, and
// " ".
bool is_printable(std::string_view character, Regex::Matcher& matcher) {
  static const Regex kUnprintable = *Regex::compile("[\\p{C}\\p{Z}]");
  const auto found = kUnprintable.find(character, 0, matcher);
  return !found.ok() || !*found;
}

void append_escape(char32_t value, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  const int digits = value < 0x100 ? 2 : value < 0x10000 ? 4 : 8;
  out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = 4 * digits - 4; shift >= 0; shift -= 4) {
    out.push_back(kHex[(value >> shift) & 15]);
  }
}

std::string quoted_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  std::optional<Regex::Matcher> matcher;  // of the first character beyond ASCII
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const std::string_view character = text.substr(0, point.len_bytes);
    text.remove_prefix(point.len_bytes);
    const char32_t c = point.value;
    if (c >= 0x80 && !matcher) matcher.emplace();
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out.push_back('\\');
      out.append(character);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !is_printable(character, *matcher))) {
      append_escape(c, out);
    } else {
      out.append(character);
    }
  }
  out.push_back(quote);
  return out;
}

struct Brackets {
  const char *open, *close;
};

Brackets brackets_of(const Value& list) {
  switch (list.form()) {
    case ListForm::kTuple:
      return {"(", list.as_list().size() == 1 ? ",)" : ")"};
    case ListForm::kKeys:
      return {"dict_keys([", "])"};
    case ListForm::kValues:
      return {"dict_values([", "])"};
    case ListForm::kItems:
      return {"dict_items([", "])"};
    default:
      return {"[", "]"};
  }
}

void append_repr(const Value& value, std::string& out) {
  switch (value.kind()) {
    case Kind::kString:
      if (value.is_markup()) out += "Markup(";
      out += quoted_text(value.as_string());
      if (value.is_markup()) out += ")";
      break;
    case Kind::kList: {
      if (value.form() == ListForm::kRange) {
        out += value.shown();
        break;
      }
      const Brackets brackets = brackets_of(value);
      out += brackets.open;
      bool first = true;
      for (const Value& item : value.as_list()) {
        if (!first) out += ", ";
        first = false;
        append_repr(item, out);
      }
      out += brackets.close;
      break;
    }
    case Kind::kDict: {
      out.push_back('{');
      bool first = true;
      for (const auto& member : value.as_dict()) {
        if (!first) out += ", ";
        first = false;
        append_repr(member.first, out);
        out += ": ";
        append_repr(member.second, out);
      }
      out.push_back('}');
      break;
    }
    case Kind::kUndefined:
      out += "Undefined";
      break;
    default:
      out += to_text(value);
  }
}

}  // namespace

std::string to_text(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.truth() ? "True" : "False";
    case Kind::kInt:
      return std::to_string(value.as_int());
    case Kind::kBigInt:
      return value.as_big();
    case Kind::kFloat:
      return float_text(value.as_float());
    case Kind::kString:
      return value.as_string();
    case Kind::kList:
    case Kind::kDict:
      return to_repr(value);
    default:
      return std::string("<") + value.kind_name() + ">";
  }
}

std::string to_repr(const Value& value) {
  std::string out;
  append_repr(value, out);
  return out;
}

}  // namespace forerun::text::jinja
