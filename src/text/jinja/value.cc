// Making, reading and comparing values, and str() and repr() as in Python.
#include "text/jinja/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/status_macros.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace forerun::text::jinja {
namespace {

const std::string kNoName;

template <class Container>
Status check_depth(const Container& container) {
  if (container.depth <= kMaxValueDepth) return {};
  return Status(StatusCode::kResourceExhausted,
                "value nested deeper than " + std::to_string(kMaxValueDepth) + " levels");
}

bool is_any_number(const Value& value) {
  return value.is_number() || value.kind() == Kind::kBigInt;
}

// Compares two numbers, one of which does not fit into 64 bits. If one is a double, both are
// compared as doubles.
int compare_big(const Value& a, const Value& b) {
  if (a.kind() == Kind::kFloat || b.kind() == Kind::kFloat) {
    return a.as_float() < b.as_float() ? -1 : a.as_float() > b.as_float() ? 1 : 0;
  }
  const std::string left = to_text(a.kind() == Kind::kBool ? Value::integer(a.as_int()) : a);
  const std::string right = to_text(b.kind() == Kind::kBool ? Value::integer(b.as_int()) : b);
  const bool left_negative = left[0] == '-';
  const bool right_negative = right[0] == '-';
  if (left_negative != right_negative) return left_negative ? -1 : 1;
  int order = left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  if (order == 0) order = left.compare(right) < 0 ? -1 : left == right ? 0 : 1;
  return left_negative ? -order : order;
}

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

// Python's str.isprintable for a character beyond ASCII: true for letters, marks, numbers,
// punctuation and symbols.
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
  std::optional<Regex::Matcher> matcher;  // made at the first character beyond ASCII
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

Value Value::undefined(std::string name) {
  return make(Undefined{std::make_shared<const std::string>(std::move(name))});
}
Value Value::none() { return make(std::monostate()); }
Value Value::boolean(bool flag) { return make(flag); }
Value Value::integer(int64_t number) { return make(number); }
Value Value::real(double number) { return make(number); }
Value Value::big_integer(std::string decimal) {
  return make(Big{std::make_shared<const std::string>(std::move(decimal))});
}
Value Value::string(std::string text) {
  return make(std::make_shared<const Text>(Text{std::move(text), false}));
}
Value Value::markup(std::string text) {
  return make(std::make_shared<const Text>(Text{std::move(text), true}));
}
Value Value::string_like(std::string text, const Value& like) {
  return like.is_string() && like.is_markup() ? markup(std::move(text)) : string(std::move(text));
}
Value Value::function(Function which) { return make(which); }
Value Value::macro(Macro macro) { return make(macro); }
Value Value::loop(std::shared_ptr<const LoopState> state) { return make(std::move(state)); }
Value Value::method(Value self, std::string name) {
  return make(std::make_shared<const Method>(
      Method{std::make_shared<const Value>(std::move(self)), std::move(name)}));
}
Value Value::new_namespace() { return make(std::make_shared<Namespace>()); }

Result<Value> Value::list(List items, ListForm form) {
  auto container = std::make_shared<Container<List>>();
  container->form = form;
  for (const Value& item : items) {
    container->depth = std::max(container->depth, item.depth() + 1);
    container->holds_namespace |= item.holds_namespace();
  }
  container->items = std::move(items);
  FORERUN_RETURN_IF_ERROR(check_depth(*container));
  return make(std::shared_ptr<const Container<List>>(std::move(container)));
}

Result<Value> Value::range(List numbers, std::string shown) {
  auto container = std::make_shared<Container<List>>();
  container->form = ListForm::kRange;
  container->items = std::move(numbers);
  container->shown = std::move(shown);
  return make(std::shared_ptr<const Container<List>>(std::move(container)));
}

Result<Value> Value::dict(Dict items) {
  auto container = std::make_shared<Container<Dict>>();
  for (const auto& [key, item] : items) {
    container->depth = std::max({container->depth, item.depth() + 1, key.depth() + 1});
    container->holds_namespace |= item.holds_namespace() || key.holds_namespace();
  }
  container->items = std::move(items);
  FORERUN_RETURN_IF_ERROR(check_depth(*container));
  return make(std::shared_ptr<const Container<Dict>>(std::move(container)));
}

Result<Value> Value::dict(const Names& items) {
  Dict out;
  for (const auto& [name, item] : items) out.emplace_back(string(name), item);
  return dict(std::move(out));
}

Result<Value> Value::generator(List items) {
  auto made = std::make_shared<Generator>();
  for (const Value& item : items) {
    made->depth = std::max(made->depth, item.depth() + 1);
    made->holds_namespace |= item.holds_namespace();
  }
  made->items = std::move(items);
  FORERUN_RETURN_IF_ERROR(check_depth(*made));
  return make(std::move(made));
}

const std::string& Value::as_string() const {
  return std::get<std::shared_ptr<const Text>>(data_)->text;
}
bool Value::is_markup() const { return std::get<std::shared_ptr<const Text>>(data_)->is_markup; }
const std::string& Value::as_big() const { return *std::get<Big>(data_).decimal; }
const List& Value::as_list() const {
  return std::get<std::shared_ptr<const Container<List>>>(data_)->items;
}
const Dict& Value::as_dict() const {
  return std::get<std::shared_ptr<const Container<Dict>>>(data_)->items;
}
ListForm Value::form() const {
  return std::get<std::shared_ptr<const Container<List>>>(data_)->form;
}
const std::string& Value::shown() const {
  return std::get<std::shared_ptr<const Container<List>>>(data_)->shown;
}
size_t Value::remaining() const {
  const auto& generator = std::get<std::shared_ptr<Generator>>(data_);
  return generator->items.size() - generator->taken;
}
List Value::take(size_t count) const {
  const auto& generator = std::get<std::shared_ptr<Generator>>(data_);
  const auto begin = generator->items.begin() + static_cast<std::ptrdiff_t>(generator->taken);
  count = std::min(count, remaining());
  generator->taken += count;
  return List(begin, begin + static_cast<std::ptrdiff_t>(count));
}
int64_t Value::as_int() const {
  if (kind() == Kind::kBool) return std::get<bool>(data_) ? 1 : 0;
  return std::get<int64_t>(data_);
}
double Value::as_float() const {
  if (kind() == Kind::kBigInt) return std::strtod(as_big().c_str(), nullptr);
  return kind() == Kind::kFloat ? std::get<double>(data_) : static_cast<double>(as_int());
}
const LoopState& Value::as_loop() const {
  return *std::get<std::shared_ptr<const LoopState>>(data_);
}
const Value::Method& Value::as_method() const {
  return *std::get<std::shared_ptr<const Method>>(data_);
}
const std::string& Value::undefined_name() const {
  const auto& name = std::get<Undefined>(data_).name;
  return name ? *name : kNoName;
}

const Value* Value::find(std::string_view key) const {
  if (is_dict()) {
    for (const auto& member : as_dict()) {
      if (member.first.is_string() && member.first.as_string() == key) return &member.second;
    }
  }
  if (kind() == Kind::kNamespace) {
    for (const auto& member : std::get<std::shared_ptr<Namespace>>(data_)->members) {
      if (member.first == key) return &member.second;
    }
  }
  return nullptr;
}

const Value* Value::find(const Value& key) const {
  if (key.is_string()) return find(key.as_string());
  if (!is_dict()) return nullptr;
  for (const auto& member : as_dict()) {
    if (equal(member.first, key)) return &member.second;
  }
  return nullptr;
}

bool Value::is_hashable() const {
  if (is_tuple()) {
    return std::all_of(as_list().begin(), as_list().end(),
                       [](const Value& part) { return part.is_hashable(); });
  }
  return !is_dict() && !(is_list() && form() != ListForm::kRange);
}

Status Value::set_member(std::string_view key, Value member) {
  if (member.holds_namespace()) {
    return Status(StatusCode::kInvalidArgument, "a namespace's member cannot hold a namespace");
  }
  Names& members = std::get<std::shared_ptr<Namespace>>(data_)->members;
  for (auto& known : members) {
    if (known.first == key) {
      known.second = std::move(member);
      return {};
    }
  }
  members.emplace_back(std::string(key), std::move(member));
  return {};
}

bool Value::truth() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return std::get<bool>(data_);
    case Kind::kInt:
      return as_int() != 0;
    case Kind::kFloat:
      return as_float() != 0;
    case Kind::kBigInt:
      return true;
    case Kind::kString:
      return !as_string().empty();
    case Kind::kList:
      return !as_list().empty();
    case Kind::kDict:
      return !as_dict().empty();
    default:
      return true;
  }
}

bool Value::is_same_object(const Value& other) const {
  if (kind() != other.kind()) return false;
  if (kind() == Kind::kGenerator) {
    return std::get<std::shared_ptr<Generator>>(data_) ==
           std::get<std::shared_ptr<Generator>>(other.data_);
  }
  if (kind() == Kind::kNamespace) {
    return std::get<std::shared_ptr<Namespace>>(data_) ==
           std::get<std::shared_ptr<Namespace>>(other.data_);
  }
  if (kind() == Kind::kList) {
    return std::get<std::shared_ptr<const Container<List>>>(data_) ==
           std::get<std::shared_ptr<const Container<List>>>(other.data_);
  }
  if (kind() == Kind::kDict) {
    return std::get<std::shared_ptr<const Container<Dict>>>(data_) ==
           std::get<std::shared_ptr<const Container<Dict>>>(other.data_);
  }
  return equal(*this, other);
}

bool Value::holds_namespace() const {
  switch (kind()) {
    case Kind::kNamespace:
      return true;
    case Kind::kList:
      return std::get<std::shared_ptr<const Container<List>>>(data_)->holds_namespace;
    case Kind::kDict:
      return std::get<std::shared_ptr<const Container<Dict>>>(data_)->holds_namespace;
    case Kind::kGenerator:
      return std::get<std::shared_ptr<Generator>>(data_)->holds_namespace;
    case Kind::kMethod:
      return as_method().self->holds_namespace();
    default:
      return false;
  }
}

uint32_t Value::depth() const {
  switch (kind()) {
    case Kind::kList:
      return std::get<std::shared_ptr<const Container<List>>>(data_)->depth;
    case Kind::kDict:
      return std::get<std::shared_ptr<const Container<Dict>>>(data_)->depth;
    case Kind::kGenerator:
      return std::get<std::shared_ptr<Generator>>(data_)->depth;
    case Kind::kMethod:
      return as_method().self->depth() + 1;
    default:
      return 0;
  }
}

const char* Value::kind_name() const {
  static constexpr const char* kNames[] = {"nothing (undefined)",
                                           "none",
                                           "a boolean",
                                           "an integer",
                                           "an integer past 64 bits",
                                           "a number",
                                           "a string",
                                           "a list",
                                           "a mapping",
                                           "a generator (a list after \"| list\")",
                                           "a namespace",
                                           "a loop",
                                           "a macro",
                                           "a function",
                                           "a method"};
  return kNames[data_.index()];
}

bool equal(const Value& a, const Value& b) {
  if (a.kind() == Kind::kBigInt || b.kind() == Kind::kBigInt) {
    return is_any_number(a) && is_any_number(b) && compare_big(a, b) == 0;
  }
  if (a.is_number() && b.is_number()) {
    if (a.kind() != Kind::kFloat && b.kind() != Kind::kFloat) return a.as_int() == b.as_int();
    return a.as_float() == b.as_float();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.as_string() == b.as_string();
    case Kind::kList:
      return a.form() == b.form() && std::equal(a.as_list().begin(), a.as_list().end(),
                                                b.as_list().begin(), b.as_list().end(), equal);
    case Kind::kDict: {
      if (a.as_dict().size() != b.as_dict().size()) return false;
      for (const auto& member : a.as_dict()) {
        const Value* other = b.find(member.first);
        if (!other || !equal(member.second, *other)) return false;
      }
      return true;
    }
    case Kind::kGenerator:
    case Kind::kNamespace:
      return a.is_same_object(b);
    case Kind::kMacro:
      return a.as_macro().definition == b.as_macro().definition;
    case Kind::kFunction:
      return a.as_function() == b.as_function();
    default:
      return false;
  }
}

Result<int> compare(const Value& a, const Value& b) {
  if ((a.kind() == Kind::kBigInt && is_any_number(b)) ||
      (b.kind() == Kind::kBigInt && is_any_number(a))) {
    return compare_big(a, b);
  }
  if (a.is_number() && b.is_number()) {
    if (a.kind() != Kind::kFloat && b.kind() != Kind::kFloat) {
      return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
    }
    return a.as_float() < b.as_float() ? -1 : a.as_float() > b.as_float() ? 1 : 0;
  }
  if (a.is_string() && b.is_string()) {
    const int order = a.as_string().compare(b.as_string());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_list() && b.is_list() && a.form() == b.form() &&
      (a.form() == ListForm::kList || a.is_tuple())) {
    const List& left = a.as_list();
    const List& right = b.as_list();
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (equal(left[i], right[i])) continue;
      return compare(left[i], right[i]);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  }
  return Status(StatusCode::kInvalidArgument,
                std::string("cannot order ") + a.kind_name() + " and " + b.kind_name());
}

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
