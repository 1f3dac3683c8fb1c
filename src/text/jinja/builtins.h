// The operations that templates call by name, and access to parts of values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "forerun/status.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace forerun::text::jinja {

// a.name: a method of that name, else a member; undefined if there is neither.
Result<Value> attribute(const Value& value, const std::string& name);
// a[key]: a member or element, else as attribute.
Result<Value> item(const Value& value, const Value& key, Runtime& runtime);
// a[from:to:step]; null bounds are left out.
Result<Value> slice(const Value& value, const Value* from, const Value* to, const Value* step,
                    Runtime& runtime);
// What a loop over the value goes through: elements, keys, characters; nothing for undefined.
Result<List> iterate(const Value& value, Runtime& runtime);

// + - * / // % ** ~
Result<Value> binary(const std::string& op, const Value& a, const Value& b, Runtime& runtime);
// == != < <= > >= in, not in
Result<bool> relation(const std::string& op, const Value& a, const Value& b);

// The string with & < > " ' as entities, marked as escaped; one that is marked stays as it is.
Value escaped(const Value& value);

// Python's `text % values`: a tuple's values, a mapping's members, or one value.
Result<Value> percent_format(const Value& text, const Value& values, Runtime& runtime);
// Python's text.format(...).
Result<Value> brace_format(const Value& text, const Arguments& args, Runtime& runtime);

// kUnsupported for names that are not known.
Result<Value> apply_filter(const std::string& name, const Value& value, const Arguments& args,
                           Runtime& runtime);
Result<bool> apply_test(const std::string& name, const Value& value, const Arguments& args,
                        Runtime& runtime);
bool is_known_test(std::string_view name);
bool is_known_filter(std::string_view name);

bool has_method(const Value& value, std::string_view name);
Result<Value> call_method(const Value& self, const std::string& name, const Arguments& args,
                          Runtime& runtime);

// `name` is one of a string's methods, its arguments are checked.
Result<Value> call_string_method(const Value& self, const std::string& name, const Arguments& args,
                                 Runtime& runtime);

// A filter's argument as an integer; kInvalidArgument for other kinds.
Result<int64_t> int_argument(const std::string& filter, const Value* given, int64_t fallback);
// kInvalidArgument: `what` found a value of this kind.
Status bad_value(const std::string& what, const Value& found, const std::string& accepted);

// Filters over texts and over sequences; no value if the name is none of theirs.
Result<std::optional<Value>> apply_text_filter(const std::string& name, const Value& value,
                                               const Arguments& args, Runtime& runtime);
Result<std::optional<Value>> apply_sequence_filter(const std::string& name, const Value& value,
                                                   const Arguments& args, Runtime& runtime);

}  // namespace forerun::text::jinja
