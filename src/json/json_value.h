// A JSON value and its path in the document. Its getters convert it to native types; errors name
// the file, the field, the value found and the values accepted. All conversion, description and
// refusal of JSON is here; field_reader.h uses it to read the fields of an object.
//
// There are two kinds of documents. Those of JsonValue do not keep the order of keys and look up
// keys fast in objects of any size; those of OrderedJsonValue keep the order in which a client
// wrote the keys.
//
// A value is a view: its document must outlive it. It may be read from many threads.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// Returns the value as an integer, if it is one; an integral float such as 4096.0 counts. Copies
// nothing.
template <class Json>
std::optional<int64_t> json_integer(const Json& value);

template <class Json>
class BasicJsonValue {
 public:
  // `value` is null if it is absent. `source` is the name of the document in messages, e.g. the
  // file's path; empty if the reader of the message knows it. `path` is the value's path within the
  // document, empty for the whole document.
  explicit BasicJsonValue(const Json* value, std::string source = {}, std::string path = {})
      : value_(value), source_(std::move(source)), path_(std::move(path)) {}

  // Returns null if the value is absent.
  const Json* get() const { return value_; }
  // Returns the name of the value in messages: SOURCE: field "PATH", or either of the two alone.
  std::string name() const;

  // An absent value reads as null.
  bool is_null() const;
  bool is_string() const;
  bool is_object() const;
  bool is_array() const;
  // Returns whether the value is true in Python: none of null, false, 0, "", [] and {}.
  bool is_truthy() const;

  // Returns a member of an object; absent if there is none, or if this is not an object.
  BasicJsonValue operator[](std::string_view key) const;
  // Returns element `idx` of a list, which must have more than `idx` elements.
  BasicJsonValue element(size_t idx) const;

  // Ranges are inclusive. An integral float such as 4096.0 counts as an integer.
  Result<bool> as_bool() const;
  Result<int64_t> as_integer(int64_t min, int64_t max) const;
  Result<uint64_t> as_unsigned(uint64_t min, uint64_t max) const;
  Result<float> as_number(double min, double max) const;
  Result<std::string> as_string() const;
  // Returns a string that is one of `accepted`.
  Result<std::string> as_choice(const std::vector<std::string>& accepted) const;
  // Returns the elements of a list, of any types.
  Result<std::vector<BasicJsonValue>> as_list() const;
  Result<std::vector<std::string>> keys() const;

  // Returns `otherwise` if the value is absent or null.
  Result<bool> bool_or(bool otherwise) const;
  Result<std::string> string_or(std::string otherwise) const;

  // Returns the value as messages show it, on one line; only the kind of a nested value, since a
  // document may nest deeply.
  std::string described() const;
  // Returns the failure "NAME: found DESCRIBED; accepted: ACCEPTED".
  Status refuse(std::string_view accepted, StatusCode code = StatusCode::kInvalidArgument) const;
  // Returns the same failure with `found` in place of DESCRIBED.
  Status refuse_as(std::string_view found, std::string_view accepted, StatusCode code) const;

 private:
  std::string shown_path() const;

  const Json* value_;
  std::string source_;
  std::string path_;
};

using JsonValue = BasicJsonValue<nlohmann::json>;
using OrderedJsonValue = BasicJsonValue<nlohmann::ordered_json>;

}  // namespace forerun
