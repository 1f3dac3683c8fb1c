// The methods that values have; those of strings are in string_methods.cc.
#include <algorithm>

#include "base/status_macros.h"
#include "text/jinja/builtins.h"

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
