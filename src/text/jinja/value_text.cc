// str() and repr() as Python writes them.
#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/value.h"
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

std::string quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  constexpr char kHex[] = "0123456789abcdef";
  std::string out(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back(quote);
  return out;
}

void append_repr(const Value& value, std::string& out) {
  switch (value.kind()) {
    case Kind::kString:
      out += quoted(value.as_string());
      break;
    case Kind::kList: {
      out.push_back(value.is_tuple() ? '(' : '[');
      bool first = true;
      for (const Value& item : value.as_list()) {
        if (!first) out += ", ";
        first = false;
        append_repr(item, out);
      }
      if (value.is_tuple() && value.as_list().size() == 1) out.push_back(',');
      out.push_back(value.is_tuple() ? ')' : ']');
      break;
    }
    case Kind::kDict: {
      out.push_back('{');
      bool first = true;
      for (const auto& member : value.as_dict()) {
        if (!first) out += ", ";
        first = false;
        out += quoted(member.first) + ": ";
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
