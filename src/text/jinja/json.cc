// Converts JSON text to values, and values to JSON text.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/status_macros.h"
#include "text/jinja/value.h"
#include "text/utf8.h"

namespace forerun::text::jinja {
namespace {

using nlohmann::json;

// Builds values directly from the parser's events: nlohmann's ordered objects take time quadratic
// in their size, and the input may be an untrusted request.
class Builder final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return add(Value::none()); }
  bool boolean(bool flag) override { return add(Value::boolean(flag)); }
  bool number_integer(number_integer_t number) override { return add(Value::integer(number)); }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return add(Value::big_integer(std::to_string(number)));
    }
    return add(Value::integer(static_cast<int64_t>(number)));
  }
  // Integers beyond 64 bits also arrive here, with their text.
  bool number_float(number_float_t number, const string_t& text) override {
    if (text.find_first_of(".eE") != std::string::npos) return add(Value::real(number));
    const bool negative = text.starts_with('-');
    const std::optional<Value> integer =
        integer_of_digits(std::string_view(text).substr(negative ? 1 : 0), 10, negative);
    return integer ? add(*integer)
                   : fail("found an integer of " + std::to_string(text.size()) + " digits");
  }
  bool string(string_t& text) override { return add(Value::string(std::move(text))); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool end_array() override { return close(Value::list(std::move(open_.back().list))); }
  bool end_object() override {
    Dict& dict = open_.back().dict;
    std::unordered_map<std::string_view, size_t> last;
    for (size_t i = 0; i < dict.size(); ++i) last[dict[i].first.as_string()] = i;
    if (last.size() == dict.size()) return close(Value::dict(std::move(dict)));
    Dict unique;
    for (size_t i = 0; i < dict.size(); ++i) {
      if (last[dict[i].first.as_string()] == i) unique.push_back(dict[i]);
    }
    return close(Value::dict(std::move(unique)));
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail("found broken JSON at byte " + std::to_string(position));
  }

  const std::string& error() const { return error_; }
  Value take() { return std::move(root_); }

 private:
  struct Open {
    bool is_object = false;
    std::string key;
    List list;
    Dict dict;
  };

  bool fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }

  bool open(bool is_object) {
    if (open_.size() >= kMaxValueDepth) {
      return fail("found more than " + std::to_string(kMaxValueDepth) +
                  " nested levels; accepted: at most " + std::to_string(kMaxValueDepth));
    }
    open_.emplace_back();
    open_.back().is_object = is_object;
    return true;
  }

  bool close(Result<Value> value) {
    open_.pop_back();
    if (!value.ok()) return fail(value.status().message());
    return add(std::move(value).value());
  }

  bool add(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.emplace_back(Value::string(std::move(open_.back().key)), std::move(value));
    } else {
      open_.back().list.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Open> open_;
  Value root_;
  std::string error_;
};

void append_unicode_escape(char32_t unit, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out.push_back(kHex[(unit >> shift) & 15]);
}

void append_string(std::string_view text, bool ascii_only, std::string& out) {
  out.push_back('"');
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const char32_t c = point.value;
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\b') {
      out += "\\b";
    } else if (c == '\f') {
      out += "\\f";
    } else if (c < 0x20 || (ascii_only && c >= 0x7f && c < 0x10000)) {
      append_unicode_escape(c, out);
    } else if (ascii_only && c >= 0x10000) {
      append_unicode_escape(0xd800 + ((c - 0x10000) >> 10), out);
      append_unicode_escape(0xdc00 + ((c - 0x10000) & 0x3ff), out);
    } else {
      append_utf8(c, out);
    }
    text.remove_prefix(point.len_bytes);
  }
  out.push_back('"');
}

std::string number_text(const Value& value) {
  if (value.kind() == Kind::kFloat && std::isnan(value.as_float())) return "NaN";
  if (value.kind() == Kind::kFloat && std::isinf(value.as_float())) {
    return value.as_float() < 0 ? "-Infinity" : "Infinity";
  }
  return to_text(value);
}

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  Status write(const Value& value, int64_t level) {
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return {};
      case Kind::kBool:
        out_ += value.truth() ? "true" : "false";
        return {};
      case Kind::kInt:
      case Kind::kBigInt:
      case Kind::kFloat:
        out_ += number_text(value);
        return {};
      case Kind::kString:
        append_string(value.as_string(), style_.ascii_only, out_);
        return {};
      case Kind::kList:
        if (value.form() != ListForm::kList && !value.is_tuple()) break;
        return write_list(value.as_list(), level);
      case Kind::kDict:
        return write_dict(value.as_dict(), level);
      default:
        break;
    }
    const char* found =
        value.is_list() ? "a view or range (a list after \"| list\")" : value.kind_name();
    return Status(StatusCode::kInvalidArgument,
                  std::string("tojson: found ") + found +
                      "; accepted: none, booleans, numbers, strings, lists and mappings");
  }

  std::string take() { return std::move(out_); }

 private:
  void new_line(int64_t level) {
    if (!style_.indent) return;
    out_.push_back('\n');
    out_.append(static_cast<size_t>(level * *style_.indent), ' ');
  }

  Status write_list(const List& list, int64_t level) {
    out_.push_back('[');
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      FORERUN_RETURN_IF_ERROR(write(list[i], level + 1));
    }
    if (!list.empty()) new_line(level);
    out_.push_back(']');
    return {};
  }

  Status write_dict(const Dict& dict, int64_t level) {
    std::vector<const std::pair<Value, Value>*> members;
    for (const auto& member : dict) {
      members.push_back(&member);
      if (style_.sort_keys) {
        FORERUN_RETURN_IF_ERROR(compare(dict.front().first, member.first).status());
      }
    }
    if (style_.sort_keys) {
      std::stable_sort(members.begin(), members.end(), [](const auto* a, const auto* b) {
        const Result<int> order = compare(a->first, b->first);
        return order.ok() && *order < 0;
      });
    }
    out_.push_back('{');
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      FORERUN_RETURN_IF_ERROR(write_key(members[i]->first));
      out_ += style_.key_separator;
      FORERUN_RETURN_IF_ERROR(write(members[i]->second, level + 1));
    }
    if (!members.empty()) new_line(level);
    out_.push_back('}');
    return {};
  }

  // Keys are strings in JSON: numbers, booleans and none become their JSON text.
  Status write_key(const Value& key) {
    if (key.is_string()) {
      append_string(key.as_string(), style_.ascii_only, out_);
      return {};
    }
    if (!key.is_number() && key.kind() != Kind::kBigInt && !key.is_none()) {
      return Status(StatusCode::kInvalidArgument,
                    std::string("tojson: found ") + key.kind_name() +
                        " as a key; accepted: strings, numbers, booleans, none");
    }
    out_.push_back('"');
    FORERUN_RETURN_IF_ERROR(write(key, 0));
    out_.push_back('"');
    return {};
  }

  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

Result<Value> parse_json(std::string_view text, const std::string& what) {
  Builder builder;
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return Status(StatusCode::kInvalidArgument,
                  what + ": " + (builder.error().empty() ? "broken JSON" : builder.error()));
  }
  return builder.take();
}

Result<std::string> to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  FORERUN_RETURN_IF_ERROR(writer.write(value, 0));
  return writer.take();
}

}  // namespace forerun::text::jinja
