// Methods of strings, mappings and loops.
#include <algorithm>
#include <optional>

#include "text/jinja/builtins.h"
#include "text/jinja/strings.h"

namespace forerun::text::jinja {
namespace {

constexpr std::string_view kStringMethods[] = {
    "capitalize",   "count",        "endswith", "find",    "index",  "isalnum", "isalpha",
    "isdigit",      "islower",      "isspace",  "isupper", "join",   "lower",   "lstrip",
    "removeprefix", "removesuffix", "replace",  "rfind",   "rsplit", "rstrip",  "split",
    "splitlines",   "startswith",   "strip",    "title",   "upper",  "zfill"};
constexpr std::string_view kDictMethods[] = {"copy", "get", "items", "keys", "values"};
constexpr std::string_view kListMethods[] = {"copy", "count", "index"};

template <size_t n>
bool contains(const std::string_view (&names)[n], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Status bad_argument(const std::string& method, const char* accepted) {
  return Status(StatusCode::kInvalidArgument, method + "(): accepted: " + accepted);
}

std::optional<std::string> text_argument(const Arguments& args, size_t index,
                                         std::string_view name) {
  const Value* given = args.get(index, name);
  if (!given || !given->is_string()) return std::nullopt;
  return given->as_string();
}

int64_t count_argument(const Arguments& args, size_t index, std::string_view name) {
  const Value* given = args.get(index, name);
  return given && given->kind() == Kind::kInt ? std::max<int64_t>(given->as_int(), -1) : -1;
}

Result<Value> text_list(const std::vector<std::string>& parts, Runtime& runtime) {
  List out;
  for (const std::string& part : parts) out.push_back(Value::string(part));
  return make_list(std::move(out), runtime);
}

// startswith and endswith take one text or a tuple of them.
Result<Value> has_affix(const std::string& name, const std::string& text, const Arguments& args) {
  const Value* affix = args.get(0, "prefix");
  if (!affix) return bad_argument(name, "a string");
  const auto matches = [&](const Value& candidate) {
    if (!candidate.is_string()) return false;
    return name == "startswith" ? text.starts_with(candidate.as_string())
                                : text.ends_with(candidate.as_string());
  };
  if (affix->is_string()) return Value::boolean(matches(*affix));
  if (!affix->is_list()) return bad_argument(name, "a string or a tuple of strings");
  return Value::boolean(std::any_of(affix->as_list().begin(), affix->as_list().end(), matches));
}

// Python counts in characters; -1 where there is none.
int64_t character_index(const std::string& text, size_t byte) {
  if (byte == std::string::npos) return -1;
  return static_cast<int64_t>(characters(std::string_view(text).substr(0, byte)).size());
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = text.find_first_of("\n\r");
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
  }
  return out;
}

Result<Value> character_class(const std::string& name, const std::string& text) {
  const auto all = [&](auto holds) {
    return Value::boolean(!text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
      return holds(static_cast<unsigned char>(c));
    }));
  };
  const auto is_digit = [](unsigned char c) { return c >= '0' && c <= '9'; };
  // Beyond ASCII every character is taken for a letter.
  const auto is_letter = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
  };
  if (name == "isdigit") return all(is_digit);
  if (name == "isalpha") return all(is_letter);
  if (name == "isalnum") return all([&](unsigned char c) { return is_digit(c) || is_letter(c); });
  if (name == "isspace") {
    return Value::boolean(!text.empty() && stripped(text, std::nullopt, true, false).empty());
  }
  const bool cased = upper(text) != lower(text);
  return Value::boolean(cased && text == (name == "isupper" ? upper(text) : lower(text)));
}

Result<Value> string_method(const std::string& text, const std::string& name, const Arguments& args,
                            Runtime& runtime) {
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return make_text(std::string(stripped(text, text_argument(args, 0, "chars"), name != "rstrip",
                                          name != "lstrip")),
                     runtime);
  }
  if (name == "split" || name == "rsplit") {
    const std::optional<std::string> separator = text_argument(args, 0, "sep");
    if (separator && separator->empty()) return bad_argument(name, "a separator that is not empty");
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend(text.size()));
    return text_list(split(text, separator, count_argument(args, 1, "maxsplit"), name == "rsplit"),
                     runtime);
  }
  if (name == "splitlines") return text_list(lines_of(text), runtime);
  if (name == "startswith" || name == "endswith") return has_affix(name, text, args);
  if (name == "title") return make_text(titled(text), runtime);
  if (name == "upper" || name == "lower" || name == "capitalize" || name == "replace" ||
      name == "join") {
    Arguments filter_args = args;
    if (name != "join") return apply_filter(name, Value::string(text), filter_args, runtime);
    const Value* parts = args.get(0, "iterable");
    if (!parts) return bad_argument(name, "a list");
    filter_args.positional.assign(1, Value::string(text));
    return apply_filter("join", *parts, filter_args, runtime);
  }
  if (name.starts_with("is")) return character_class(name, text);
  const std::optional<std::string> wanted = text_argument(args, 0, "sub");
  if (name == "zfill") {
    const int64_t width = std::min<int64_t>(count_argument(args, 0, "width"), 1024);
    const int64_t missing = width - character_index(text, text.size());
    return make_text(std::string(static_cast<size_t>(std::max<int64_t>(missing, 0)), '0') + text,
                     runtime);
  }
  if (!wanted) return bad_argument(name, "a string");
  if (name == "removeprefix") {
    return make_text(text.starts_with(*wanted) ? text.substr(wanted->size()) : text, runtime);
  }
  if (name == "removesuffix") {
    const bool found = text.ends_with(*wanted) && !wanted->empty();
    return make_text(found ? text.substr(0, text.size() - wanted->size()) : text, runtime);
  }
  if (name == "find" || name == "index") {
    const int64_t at = character_index(text, text.find(*wanted));
    if (at < 0 && name == "index") return bad_argument(name, "a string that occurs");
    return Value::integer(at);
  }
  if (name == "rfind") return Value::integer(character_index(text, text.rfind(*wanted)));
  if (wanted->empty()) return Value::integer(character_index(text, text.size()) + 1);
  int64_t count = 0;
  for (size_t at = text.find(*wanted); at != std::string::npos;
       at = text.find(*wanted, at + wanted->size())) {
    ++count;
  }
  return Value::integer(count);
}

Result<Value> dict_method(const Value& self, const std::string& name, const Arguments& args,
                          Runtime& runtime) {
  if (name == "copy") return self;
  if (name == "get") {
    const Value* key = args.get(0, "key");
    if (!key) return bad_argument(name, "a key");
    if (const Value* member = self.find(to_text(*key))) return *member;
    const Value* fallback = args.get(1, "default");
    return fallback ? *fallback : Value::none();
  }
  if (name == "items") return apply_filter("items", self, {}, runtime);
  List out;
  for (const auto& member : self.as_dict()) {
    out.push_back(name == "keys" ? Value::string(member.first) : member.second);
  }
  return make_list(std::move(out), runtime);
}

Result<Value> list_method(const Value& self, const std::string& name, const Arguments& args) {
  if (name == "copy") return self;
  const Value* wanted = args.get(0, "value");
  if (!wanted) return bad_argument(name, "a value");
  const List& list = self.as_list();
  const auto same = [&](const Value& element) { return equal(element, *wanted); };
  if (name == "count") {
    return Value::integer(static_cast<int64_t>(std::count_if(list.begin(), list.end(), same)));
  }
  const auto found = std::find_if(list.begin(), list.end(), same);
  if (found == list.end()) return bad_argument(name, "a value of the list");
  return Value::integer(found - list.begin());
}

}  // namespace

bool has_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kString:
      return contains(kStringMethods, name);
    case Kind::kDict:
      return contains(kDictMethods, name);
    case Kind::kList:
      return contains(kListMethods, name);
    default:
      return false;
  }
}

Result<Value> call_method(const Value& self, const std::string& name, const Arguments& args,
                          Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1));
  switch (self.kind()) {
    case Kind::kString:
      return string_method(self.as_string(), name, args, runtime);
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
