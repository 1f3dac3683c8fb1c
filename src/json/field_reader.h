// The fields of a JSON object, read to native types with errors that name the document, the field,
// what was found and what is accepted.
//
// A reader remembers its first failure, and so do the readers of nested objects made from it: call
// every getter, then look at status() once. After a failure every field reads as absent. An absent
// field and null are the same unless stated.
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

  // Whether the field is there, even if null.
  bool names(std::string_view field) const;
  // Whether the field is there and not null.
  bool has(std::string_view field) const;
  // Whether Python calls the field true: it is neither absent nor null, false, 0, "", [] or {}.
  bool truthy(std::string_view field) const;

  // Unset if absent, null or, with a failure recorded, not of this kind or range (both inclusive).
  std::optional<int64_t> integer(std::string_view field, int64_t min, int64_t max);
  std::optional<uint64_t> unsigned_integer(std::string_view field, uint64_t min, uint64_t max);
  std::optional<float> number(std::string_view field, double min, double max);
  std::optional<bool> boolean(std::string_view field);
  std::optional<std::string> string(std::string_view field);
  // A string that is one of `accepted`.
  std::optional<std::string> choice(std::string_view field,
                                    const std::vector<std::string>& accepted);
  std::optional<std::vector<std::string>> strings(std::string_view field);
  // One string or a list of up to `most` of them.
  std::optional<std::vector<std::string>> string_or_strings(std::string_view field, size_t most);
  // One integer or a list of them.
  std::optional<std::vector<int64_t>> integers(std::string_view field, int64_t min, int64_t max);
  std::optional<std::vector<float>> numbers(std::string_view field, double min, double max);
  std::optional<BasicFieldReader> object(std::string_view field);
  // A list of objects; their fields are named FIELD[0].NAME and so on.
  std::optional<std::vector<BasicFieldReader>> objects(std::string_view field);

  // The field as JSON, an object or a list where the name says so; null if unset, as above.
  const Json* any(std::string_view field) const;
  const Json* any_object(std::string_view field);
  const Json* any_list(std::string_view field);

  // Does what integer() does, but records a failure and returns 1 if the field is absent or null.
  int64_t required_integer(std::string_view field, int64_t min, int64_t max);
  // Does what string() does, but records a failure and returns "" if the field is absent, null or
  // empty.
  std::string required_string(std::string_view field);

  // The keys of this object, also after a failure.
  std::vector<std::string> keys() const;
  // Records a failure if the object has a field that is not in `fields`.
  void accept_only(const std::vector<std::string_view>& fields);

  // Records: SOURCE: field "F": found FOUND; accepted: ACCEPTED. Without `found`, the field's own
  // value is described. Keeps only the first failure.
  void refuse(std::string_view field, std::string_view accepted,
              StatusCode code = StatusCode::kInvalidArgument,
              std::optional<std::string> found = std::nullopt);
  bool ok() const { return status_->ok(); }
  Status status() const { return *status_; }

 private:
  BasicFieldReader(Value object, std::shared_ptr<Status> status);
  // The value of `got`; if `got` has failed, unset, and the failure is recorded.
  template <class T>
  std::optional<T> take(Result<T> got);

  Value object_;
  std::shared_ptr<Status> status_;  // shared with the readers of nested objects
};

using FieldReader = BasicFieldReader<nlohmann::json>;
using OrderedFieldReader = BasicFieldReader<nlohmann::ordered_json>;

}  // namespace forerun
