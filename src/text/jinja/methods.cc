// The methods of strings, mappings and lists.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "text/jinja/runtime.h"
#include "text/regex.h"
#include "text/unicode_case.h"
#include "text/utf8.h"

namespace forerun::text::jinja {
namespace {

struct Method {
  std::string_view name, parameters;
};

constexpr Method kStringMethods[] = {
    {"capitalize", ""},
    {"casefold", ""},
    {"center", "width, fillchar?"},
    {"count", "sub, start?, end?"},
    {"endswith", "suffix, start?, end?"},
    {"find", "sub, start?, end?"},
    {"format", "*"},
    {"index", "sub, start?, end?"},
    {"isalnum", ""},
    {"isalpha", ""},
    {"isascii", ""},
    {"isdecimal", ""},
    {"isdigit", ""},
    {"islower", ""},
    {"isnumeric", ""},
    {"isspace", ""},
    {"isupper", ""},
    {"join", "iterable"},
    {"ljust", "width, fillchar?"},
    {"lower", ""},
    {"lstrip", "chars?"},
    {"partition", "sep"},
    {"removeprefix", "prefix"},
    {"removesuffix", "suffix"},
    {"replace", "old, new, count?"},
    {"rfind", "sub, start?, end?"},
    {"rindex", "sub, start?, end?"},
    {"rjust", "width, fillchar?"},
    {"rpartition", "sep"},
    {"rsplit", "sep?, maxsplit?"},
    {"rstrip", "chars?"},
    {"split", "sep?, maxsplit?"},
    {"splitlines", "keepends?"},
    {"startswith", "prefix, start?, end?"},
    {"strip", "chars?"},
    {"swapcase", ""},
    {"title", ""},
    {"upper", ""},
    {"zfill", "width"},
};
constexpr Method kDictMethods[] = {
    {"copy", ""}, {"get", "key, default?"}, {"items", ""}, {"keys", ""}, {"values", ""}};
constexpr Method kListMethods[] = {{"copy", ""}, {"count", "value"}, {"index", "value"}};

template <size_t n>
const Method* find_method(const Method (&methods)[n], std::string_view name) {
  for (const Method& method : methods) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

const Method* find_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kString:
      return find_method(kStringMethods, name);
    case Kind::kDict:
      return find_method(kDictMethods, name);
    case Kind::kList:
      if (value.is_tuple() && name == "copy") return nullptr;
      if (value.form() != ListForm::kList && !value.is_tuple()) return nullptr;
      return find_method(kListMethods, name);
    default:
      return nullptr;
  }
}

Status bad_argument(const std::string& method, const char* accepted) {
  return Status(StatusCode::kInvalidArgument, method + "(): accepted: " + accepted);
}

Result<Value> dict_method(const Value& self, const std::string& name, const Arguments& args,
                          Runtime& runtime) {
  if (name == "copy") return self;
  if (name == "get") {
    if (const Value* member = self.find(*args.get(0, "key"))) return *member;
    const Value* fallback = args.get(1, "default");
    return fallback ? *fallback : Value::none();
  }
  List out;
  for (const auto& member : self.as_dict()) {
    if (name == "items") {
      FORERUN_ASSIGN_OR_RETURN(Value pair,
                               make_list({member.first, member.second}, runtime, ListForm::kTuple));
      out.push_back(std::move(pair));
    } else {
      out.push_back(name == "keys" ? member.first : member.second);
    }
  }
  return make_list(std::move(out), runtime,
                   name == "items"  ? ListForm::kItems
                   : name == "keys" ? ListForm::kKeys
                                    : ListForm::kValues);
}

Result<Value> list_method(const Value& self, const std::string& name, const Arguments& args) {
  if (name == "copy") return self;
  const Value* wanted = args.get(0, "value");
  const List& list = self.as_list();
  const auto same = [&](const Value& element) { return equal(element, *wanted); };
  if (name == "count") {
    return Value::integer(static_cast<int64_t>(std::count_if(list.begin(), list.end(), same)));
  }
  const auto found = std::find_if(list.begin(), list.end(), same);
  if (found == list.end()) return bad_argument(name, "a value of the list");
  return Value::integer(found - list.begin());
}

// Returns a text, or nothing if it is omitted or none.
Result<std::optional<std::string>> text_argument(const std::string& method, const Arguments& args,
                                                 size_t index, std::string_view name) {
  const Value* given = args.get(index, name);
  if (!given || given->is_none()) return std::optional<std::string>();
  if (!given->is_string()) return bad_value(method + "()", *given, "a string");
  return std::optional<std::string>(given->as_string());
}

Result<Value> text_list(const std::vector<std::string>& parts, const Value& like, Runtime& runtime,
                        ListForm form = ListForm::kList) {
  List out;
  for (const std::string& part : parts) out.push_back(Value::string_like(part, like));
  return make_list(std::move(out), runtime, form);
}

// Converts to an index in characters, as in Python; -1 stays -1.
int64_t character_index(const std::string& text, size_t byte) {
  if (byte == std::string::npos) return -1;
  return static_cast<int64_t>(characters(std::string_view(text).substr(0, byte)).size());
}

// text[start:end] in characters, and its start.
struct Range {
  std::string text;
  int64_t begin = 0;
  bool is_reversed = false;  // start is after end: not even "" is found in it
};

Result<Range> range_of(const std::string& method, const std::string& text, const Arguments& args) {
  const Value* start = args.get(1, "start");
  const Value* end = args.get(2, "end");
  Range range;
  if (!start && !end) {
    range.text = text;
    return range;
  }
  const std::vector<std::string_view> letters = characters(text);
  const int64_t size = static_cast<int64_t>(letters.size());
  const auto bound = [&](const Value* given, int64_t fallback) -> Result<int64_t> {
    if (!given || given->is_none()) return fallback;
    FORERUN_ASSIGN_OR_RETURN(const int64_t at, int_argument(method + "()", given, fallback));
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size + 1);
  };
  FORERUN_ASSIGN_OR_RETURN(range.begin, bound(start, 0));
  FORERUN_ASSIGN_OR_RETURN(int64_t last, bound(end, size));
  last = std::min(last, size);
  range.is_reversed = range.begin > last;
  for (int64_t i = range.begin; i < last; ++i) range.text += letters[static_cast<size_t>(i)];
  return range;
}

// startswith and endswith accept one text or a tuple of them.
Result<Value> has_affix(const std::string& name, const std::string& text, const Arguments& args) {
  FORERUN_ASSIGN_OR_RETURN(const Range range, range_of(name, text, args));
  const bool at_start = name == "startswith";
  const auto matches = [&](const Value& affix) {
    return !range.is_reversed && (at_start ? range.text.starts_with(affix.as_string())
                                           : range.text.ends_with(affix.as_string()));
  };
  const Value& affix = *args.get(0, at_start ? "prefix" : "suffix");
  if (affix.is_string()) return Value::boolean(matches(affix));
  const auto is_string = [](const Value& value) { return value.is_string(); };
  if (!affix.is_tuple() ||
      !std::all_of(affix.as_list().begin(), affix.as_list().end(), is_string)) {
    return bad_value(name + "()", affix, "a string or a tuple of strings");
  }
  return Value::boolean(std::any_of(affix.as_list().begin(), affix.as_list().end(), matches));
}

// Implements find, rfind, index, rindex and count.
Result<Value> search(const std::string& name, const std::string& text, const Arguments& args) {
  FORERUN_ASSIGN_OR_RETURN(const Range range, range_of(name, text, args));
  FORERUN_ASSIGN_OR_RETURN(const auto wanted, text_argument(name, args, 0, "sub"));
  if (!wanted) return bad_value(name + "()", Value::none(), "a string");
  if (name == "count") {
    if (range.is_reversed) return Value::integer(0);
    if (wanted->empty()) return Value::integer(character_index(range.text, range.text.size()) + 1);
    int64_t count = 0;
    for (size_t at = range.text.find(*wanted); at != std::string::npos;
         at = range.text.find(*wanted, at + wanted->size())) {
      ++count;
    }
    return Value::integer(count);
  }
  const bool from_right = name.starts_with('r');
  const size_t byte = range.is_reversed ? std::string::npos
                      : from_right      ? range.text.rfind(*wanted)
                                        : range.text.find(*wanted);
  const int64_t at = character_index(range.text, byte);
  if (at < 0 && name.ends_with("index")) return bad_argument(name, "a string that occurs");
  return Value::integer(at < 0 ? at : at + range.begin);
}

// Returns the text's lines, split at every line end that Python knows; with the line ends if
// `keep`.
std::vector<std::string> lines_of(std::string_view text, bool keep) {
  std::vector<std::string> out;
  while (!text.empty()) {
    size_t end = 0;
    size_t len = 0;
    while (end < text.size() && len == 0) {
      const CodePoint point = first_code_point(text.substr(end));
      const char32_t c = point.value;
      const bool ends = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
                        c == 0x2028 || c == 0x2029;
      if (ends) {
        len = text.substr(end).starts_with("\r\n") ? 2 : point.len_bytes;
      } else {
        end += point.len_bytes;
      }
    }
    out.emplace_back(text.substr(0, keep ? end + len : end));
    text.remove_prefix(end + len);
  }
  return out;
}

// isalpha and similar: every character is in the Unicode class that Python uses.
Result<Value> character_class(const std::string& name, const std::string& text) {
  const auto all = [&](const char* pattern) -> Result<Value> {
    const std::string whole = std::string("\\A(?:") + pattern + ")+\\z";
    FORERUN_ASSIGN_OR_RETURN(const Regex regex, Regex::compile(whole));
    Regex::Matcher matcher;
    FORERUN_ASSIGN_OR_RETURN(const auto found, regex.find(text, 0, matcher));
    return Value::boolean(found.has_value());
  };
  // Digits beyond the decimal ones: superscripts, circled and Ethiopic digits and similar.
  static const std::string kDigits =
      "[\\p{Nd}\\x{b2}\\x{b3}\\x{b9}\\x{1369}-\\x{1371}\\x{19da}\\x{2070}\\x{2074}-\\x{2079}"
      "\\x{2080}-\\x{2089}\\x{2460}-\\x{2468}\\x{2474}-\\x{247c}\\x{2488}-\\x{2490}\\x{24ea}"
      "\\x{24f5}-\\x{24fd}\\x{24ff}\\x{2776}-\\x{277e}\\x{2780}-\\x{2788}\\x{278a}-\\x{2792}]";
  if (name == "isdecimal") return all("\\p{Nd}");
  if (name == "isdigit") return all(kDigits.c_str());
  if (name == "isnumeric") return all("\\p{N}");
  if (name == "isalpha") return all("\\p{L}");
  if (name == "isalnum") return all("[\\p{L}\\p{N}]");
  if (name == "isascii") {
    return Value::boolean(std::all_of(text.begin(), text.end(),
                                      [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  }
  if (name == "isspace") {
    return Value::boolean(!text.empty() && stripped(text, std::nullopt, true, false).empty());
  }
  return Value::boolean(name == "isupper" ? python_isupper(text) : python_islower(text));
}

Result<Value> parted(const std::string& name, const std::string& text, const Value& self,
                     const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const auto separator, text_argument(name, args, 0, "sep"));
  if (!separator || separator->empty()) return bad_argument(name, "a separator that is not empty");
  const size_t at = name == "partition" ? text.find(*separator) : text.rfind(*separator);
  std::vector<std::string> parts(3);
  if (at == std::string::npos) {
    parts[name == "partition" ? 0 : 2] = text;
  } else {
    parts = {text.substr(0, at), *separator, text.substr(at + separator->size())};
  }
  return text_list(parts, self, runtime, ListForm::kTuple);
}

Result<Value> widened(const std::string& name, const std::string& text, const Value& self,
                      const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const int64_t width, int_argument(name + "()", args.get(0, "width"), 0));
  if (width > kMaxWidth) return bad_argument(name, "a width of at most 65536");
  if (name == "zfill") {
    const bool has_sign = text.starts_with('-') || text.starts_with('+');
    const std::string sign = text.substr(0, has_sign ? 1 : 0);
    return make_text_like(
        sign + padded(text.substr(sign.size()), width - static_cast<int64_t>(sign.size()), "0",
                      Align::kRight),
        self, runtime);
  }
  FORERUN_ASSIGN_OR_RETURN(const auto given, text_argument(name, args, 1, "fillchar"));
  const std::string fill = given.value_or(" ");
  if (characters(fill).size() != 1) return bad_argument(name, "one character to fill with");
  return make_text_like(
      name == "center" ? centered(text, width, fill)
                       : padded(text, width, fill, name == "ljust" ? Align::kLeft : Align::kRight),
      self, runtime);
}

Result<Value> joined(const Value& self, const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const List parts, iterate(*args.get(0, "iterable"), runtime));
  Value out = Value::string_like("", self);
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].is_string()) return bad_value("join()", parts[i], "strings");
    if (i > 0) text += self.as_string();
    text += self.is_markup() ? escaped(parts[i]).as_string() : parts[i].as_string();
    FORERUN_RETURN_IF_ERROR(
        runtime.budget.spend_text(parts[i].as_string().size() + self.as_string().size()));
  }
  return make_text_like(std::move(text), self, runtime);
}

Result<Value> split_method(const std::string& name, const std::string& text, const Value& self,
                           const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const auto separator, text_argument(name, args, 0, "sep"));
  if (separator && separator->empty()) return bad_argument(name, "a separator that is not empty");
  FORERUN_ASSIGN_OR_RETURN(const int64_t count,
                           int_argument(name + "()", args.get(1, "maxsplit"), -1));
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(text.size()));
  return text_list(split(text, separator, std::max<int64_t>(count, -1), name == "rsplit"), self,
                   runtime);
}

Result<Value> replace_method(const std::string& text, const Value& self, const Arguments& args,
                             Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const auto old, text_argument("replace", args, 0, "old"));
  const Value* given = args.get(1, "new");
  if (!old || !given->is_string()) return bad_argument("replace", "(old, new): strings");
  FORERUN_ASSIGN_OR_RETURN(const int64_t count,
                           int_argument("replace()", args.get(2, "count"), -1));
  const std::string with = (self.is_markup() ? escaped(*given) : *given).as_string();
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(text.size() * (1 + with.size())));
  return make_text_like(replaced(text, *old, with, std::max<int64_t>(count, -1)), self, runtime);
}

// Requires that `name` is a string method and its arguments have been checked.
Result<Value> call_string_method(const Value& self, const std::string& name, const Arguments& args,
                                 Runtime& runtime) {
  const std::string& text = self.as_string();
  const auto made = [&](std::string out) { return make_text_like(std::move(out), self, runtime); };
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    FORERUN_ASSIGN_OR_RETURN(const auto chars, text_argument(name, args, 0, "chars"));
    return made(std::string(stripped(text, chars, name != "rstrip", name != "lstrip")));
  }
  if (name == "split" || name == "rsplit") return split_method(name, text, self, args, runtime);
  if (name == "splitlines") {
    const Value* keep = args.get(0, "keepends");
    return text_list(lines_of(text, keep && keep->truth()), self, runtime);
  }
  if (name == "startswith" || name == "endswith") return has_affix(name, text, args);
  if (name == "title") return made(titled(text));
  if (name == "upper") return made(upper(text));
  if (name == "lower") return made(lower(text));
  if (name == "casefold") return made(python_casefold(text));
  if (name == "capitalize") return made(capitalized(text));
  if (name == "swapcase") return made(python_swapcase(text));
  if (name == "replace") return replace_method(text, self, args, runtime);
  if (name == "join") return joined(self, args, runtime);
  if (name == "format") return brace_format(self, args, runtime);
  if (name == "partition" || name == "rpartition") return parted(name, text, self, args, runtime);
  if (name == "zfill" || name == "center" || name == "ljust" || name == "rjust") {
    return widened(name, text, self, args, runtime);
  }
  if (name.starts_with("is")) return character_class(name, text);
  if (name == "removeprefix" || name == "removesuffix") {
    FORERUN_ASSIGN_OR_RETURN(const auto affix, text_argument(name, args, 0, name.substr(6)));
    if (!affix) return bad_argument(name, "a string");
    if (name == "removeprefix") {
      return made(text.starts_with(*affix) ? text.substr(affix->size()) : text);
    }
    return made(text.ends_with(*affix) ? text.substr(0, text.size() - affix->size()) : text);
  }
  return search(name, text, args);
}

}  // namespace

bool has_method(const Value& value, std::string_view name) {
  return find_method(value, name) != nullptr;
}

Result<Value> call_method(const Value& self, const std::string& name, const Arguments& args,
                          Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1));
  if (const Method* method = find_method(self, name)) {
    if (method->parameters != "*") {
      FORERUN_RETURN_IF_ERROR(args.check(name + "()", method->parameters));
    }
  }
  switch (self.kind()) {
    case Kind::kString:
      return call_string_method(self, name, args, runtime);
    case Kind::kDict:
      return dict_method(self, name, args, runtime);
    case Kind::kList:
      return list_method(self, name, args);
    case Kind::kLoop:
      if (args.positional.empty()) return bad_argument(name, "at least one value");
      return args.positional[self.as_loop().index0 % args.positional.size()];
    default:
      return Status(StatusCode::kInvalidArgument,
                    std::string(self.kind_name()) + " has no method " + name);
  }
}

}  // namespace forerun::text::jinja
