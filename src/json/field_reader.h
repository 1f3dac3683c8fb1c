// Reads the fields of a JSON object to native types. Errors name the document, the field, the value
// found and the values accepted.
//
// A reader remembers its first failure and shares it with the readers of nested objects made from
// it: call every getter, then check status() once. After a failure every field reads as absent. An
// absent field and null are the same unless stated otherwise.
//
// Thread rules: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"
#include "json/json_value.h"

namespace forerun {

template <class Json>
class BasicFieldReader {
 public:
  using Value = BasicJsonValue<Json>;

  // Reads the fields of `object`, whose document must outlive the reader.
  explicit BasicFieldReader(Value object);

  // Returns whether the field is there, even if null.
  bool names(std::string_view field) const;
  // Returns whether the field is there and not null.
  bool has(std::string_view field) const;
  // Returns whether the field is true in Python: not absent, null, false, 0, "", [] or {}.
  bool truthy(std::string_view field) const;

  // Unset if the field is absent or null. Also unset, with a failure recorded, if it is not of this
  // kind or out of range (both limits inclusive).
  std::optional<int64_t> integer(std::string_view field, int64_t min, int64_t max);
  std::optional<uint64_t> unsigned_integer(std::string_view field, uint64_t min, uint64_t max);
  std::optional<float> number(std::string_view field, double min, double max);
  std::optional<bool> boolean(std::string_view field);
  std::optional<std::string> string(std::string_view field);
  // Reads a string that must be one of `accepted`.
  std::optional<std::string> choice(std::string_view field,
                                    const std::vector<std::string>& accepted);
  std::optional<std::vector<std::string>> strings(std::string_view field);
  // Reads one string or a list of up to `most` strings.
  std::optional<std::vector<std::string>> string_or_strings(std::string_view field, size_t most);
  // Reads one integer or a list of integers.
  std::optional<std::vector<int64_t>> integers(std::string_view field, int64_t min, int64_t max);
  std::optional<std::vector<float>> numbers(std::string_view field, double min, double max);
  std::optional<BasicFieldReader> object(std::string_view field);
  // Reads a list of objects; errors name their fields FIELD[0].NAME and so on.
  std::optional<std::vector<BasicFieldReader>> objects(std::string_view field);

  // Returns the field as JSON, an object or a list where the name says so; null if unset, as above.
  const Json* any(std::string_view field) const;
  const Json* any_object(std::string_view field);
  const Json* any_list(std::string_view field);

  // Does what integer() does, but records a failure and returns 1 if the field is absent or null.
  int64_t required_integer(std::string_view field, int64_t min, int64_t max);
  // Does what string() does, but records a failure and returns "" if the field is absent, null or
  // empty.
  std::string required_string(std::string_view field);

  // Returns the keys of this object, also after a failure.
  std::vector<std::string> keys() const;
  // Records a failure if the object has a field that is not in `fields`.
  void accept_only(const std::vector<std::string_view>& fields);

  // Records "SOURCE: field "F": found FOUND; accepted: ACCEPTED". Without `found`, the message
  // describes the field's own value. Keeps only the first failure.
  void refuse(std::string_view field, std::string_view accepted,
              StatusCode code = StatusCode::kInvalidArgument,
              std::optional<std::string> found = std::nullopt);
  bool ok() const { return status_->ok(); }
  Status status() const { return *status_; }

 private:
  BasicFieldReader(Value object, std::shared_ptr<Status> status);
  // Returns the value of `got`. If `got` has failed, records the failure and returns nothing.
  template <class T>
  std::optional<T> take(Result<T> got);

  Value object_;
  std::shared_ptr<Status> status_;  // shared with the readers of nested objects
};

using FieldReader = BasicFieldReader<nlohmann::json>;
using OrderedFieldReader = BasicFieldReader<nlohmann::ordered_json>;

}  // namespace forerun
