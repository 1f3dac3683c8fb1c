#include "json/field_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

namespace forerun {
namespace {

// Reads the elements of a list with `read`; `kind` names the elements' kind in messages. The path
// of an element is built only if the element is refused.
template <class Json, class Read>
auto list_of(const BasicJsonValue<Json>& list, const std::string& kind, const Read& read)
    -> Result<std::vector<std::decay_t<decltype(*read(list))>>> {
  std::vector<std::decay_t<decltype(*read(list))>> values;
  if (!list.is_array()) return list.refuse("a list of " + kind);
  values.reserve(list.get()->size());
  for (const Json& element : *list.get()) {
    auto value = read(BasicJsonValue<Json>(&element));
    if (!value.ok()) return read(list.element(values.size())).status();
    values.push_back(std::move(*value));
  }
  return values;
}

}  // namespace

template <class Json>
BasicFieldReader<Json>::BasicFieldReader(Value object)
    : BasicFieldReader(std::move(object), std::make_shared<Status>()) {}

template <class Json>
BasicFieldReader<Json>::BasicFieldReader(Value object, std::shared_ptr<Status> status)
    : object_(std::move(object)), status_(std::move(status)) {}

template <class Json>
template <class T>
std::optional<T> BasicFieldReader<Json>::take(Result<T> got) {
  if (got.ok()) return std::move(*got);
  *status_ = got.status();
  return std::nullopt;
}

template <class Json>
const Json* BasicFieldReader<Json>::any(std::string_view field) const {
  if (!ok()) return nullptr;
  const auto found = object_.get()->find(std::string(field));
  return found == object_.get()->end() || found->is_null() ? nullptr : &*found;
}

template <class Json>
bool BasicFieldReader<Json>::names(std::string_view field) const {
  return ok() && object_[field].get() != nullptr;
}

template <class Json>
bool BasicFieldReader<Json>::has(std::string_view field) const {
  return any(field) != nullptr;
}

template <class Json>
bool BasicFieldReader<Json>::truthy(std::string_view field) const {
  return ok() && object_[field].is_truthy();
}

template <class Json>
std::optional<int64_t> BasicFieldReader<Json>::integer(std::string_view field, int64_t min,
                                                       int64_t max) {
  if (any(field) == nullptr) return std::nullopt;
  return take(object_[field].as_integer(min, max));
}

template <class Json>
std::optional<uint64_t> BasicFieldReader<Json>::unsigned_integer(std::string_view field,
                                                                 uint64_t min, uint64_t max) {
  if (any(field) == nullptr) return std::nullopt;
  return take(object_[field].as_unsigned(min, max));
}

template <class Json>
std::optional<float> BasicFieldReader<Json>::number(std::string_view field, double min,
                                                    double max) {
  if (any(field) == nullptr) return std::nullopt;
  return take(object_[field].as_number(min, max));
}

template <class Json>
std::optional<bool> BasicFieldReader<Json>::boolean(std::string_view field) {
  if (any(field) == nullptr) return std::nullopt;
  return take(object_[field].as_bool());
}

template <class Json>
std::optional<std::string> BasicFieldReader<Json>::string(std::string_view field) {
  if (any(field) == nullptr) return std::nullopt;
  return take(object_[field].as_string());
}

template <class Json>
std::optional<std::string> BasicFieldReader<Json>::choice(
    std::string_view field, const std::vector<std::string>& accepted) {
  if (any(field) == nullptr) return std::nullopt;
  return take(object_[field].as_choice(accepted));
}

template <class Json>
std::optional<std::vector<std::string>> BasicFieldReader<Json>::strings(std::string_view field) {
  if (any(field) == nullptr) return std::nullopt;
  return take(
      list_of(object_[field], "strings", [](const Value& element) { return element.as_string(); }));
}

template <class Json>
std::optional<std::vector<std::string>> BasicFieldReader<Json>::string_or_strings(
    std::string_view field, size_t most) {
  const Json* const found = any(field);
  if (found == nullptr) return std::nullopt;
  if (found->is_string()) return std::vector{found->template get<std::string>()};
  if (found->is_array() && found->size() <= most) return strings(field);
  refuse(field, "a string or a list of up to " + std::to_string(most) + " strings");
  return std::nullopt;
}

// A list may have millions of elements, so a view is made only for an element that is refused.
template <class Json>
std::optional<std::vector<int64_t>> BasicFieldReader<Json>::integers(std::string_view field,
                                                                     int64_t min, int64_t max) {
  const Json* const found = any(field);
  if (found == nullptr) return std::nullopt;
  if (!found->is_array()) {
    const Result<int64_t> single = object_[field].as_integer(min, max);
    if (single.ok()) return std::vector{*single};
    *status_ = Status(single.status().code(), single.status().message() + ", or a list of them");
    return std::nullopt;
  }
  std::vector<int64_t> values;
  values.reserve(found->size());
  for (const Json& element : *found) {
    const std::optional<int64_t> value = json_integer(element);
    if (!value || *value < min || *value > max) {
      *status_ = object_[field].element(values.size()).as_integer(min, max).status();
      return std::nullopt;
    }
    values.push_back(*value);
  }
  return values;
}

template <class Json>
std::optional<std::vector<float>> BasicFieldReader<Json>::numbers(std::string_view field,
                                                                  double min, double max) {
  if (any(field) == nullptr) return std::nullopt;
  return take(list_of(object_[field], "numbers",
                      [&](const Value& element) { return element.as_number(min, max); }));
}

template <class Json>
std::optional<BasicFieldReader<Json>> BasicFieldReader<Json>::object(std::string_view field) {
  if (any_object(field) == nullptr) return std::nullopt;
  return BasicFieldReader(object_[field], status_);
}

template <class Json>
std::optional<std::vector<BasicFieldReader<Json>>> BasicFieldReader<Json>::objects(
    std::string_view field) {
  const Json* const found = any(field);
  if (found == nullptr) return std::nullopt;
  if (!found->is_array()) {
    refuse(field, "a list of objects");
    return std::nullopt;
  }
  std::vector<BasicFieldReader> readers;
  const Value list = object_[field];
  for (size_t idx = 0; idx < list.get()->size(); ++idx) {
    readers.push_back(BasicFieldReader(list.element(idx), status_));
    if (!readers.back().object_.is_object()) {
      *status_ = list.element(idx).refuse("an object");
      return std::nullopt;
    }
  }
  return readers;
}

template <class Json>
const Json* BasicFieldReader<Json>::any_object(std::string_view field) {
  const Json* const found = any(field);
  if (found == nullptr || found->is_object()) return found;
  refuse(field, "an object");
  return nullptr;
}

template <class Json>
const Json* BasicFieldReader<Json>::any_list(std::string_view field) {
  const Json* const found = any(field);
  if (found == nullptr || found->is_array()) return found;
  refuse(field, "a list");
  return nullptr;
}

template <class Json>
int64_t BasicFieldReader<Json>::required_integer(std::string_view field, int64_t min, int64_t max) {
  if (!ok()) return 1;
  return take(object_[field].as_integer(min, max)).value_or(1);
}

template <class Json>
std::string BasicFieldReader<Json>::required_string(std::string_view field) {
  std::string value = string(field).value_or("");
  if (value.empty()) refuse(field, "a string that is not empty");
  return value;
}

template <class Json>
std::vector<std::string> BasicFieldReader<Json>::keys() const {
  Result<std::vector<std::string>> keys = object_.keys();
  return keys.ok() ? std::move(*keys) : std::vector<std::string>();
}

template <class Json>
void BasicFieldReader<Json>::accept_only(const std::vector<std::string_view>& fields) {
  for (const std::string& key : keys()) {
    if (std::find(fields.begin(), fields.end(), key) != fields.end()) continue;
    std::string accepted = "only";
    for (const std::string_view field : fields) {
      accepted.append(field == fields.front() ? " " : ", ").append(field);
    }
    return refuse(key, accepted);
  }
}

template <class Json>
void BasicFieldReader<Json>::refuse(std::string_view field, std::string_view accepted,
                                    StatusCode code, std::optional<std::string> found) {
  if (!ok()) return;
  const Value value = object_[field];
  *status_ = found ? value.refuse_as(*found, accepted, code) : value.refuse(accepted, code);
}

template class BasicFieldReader<nlohmann::json>;
template class BasicFieldReader<nlohmann::ordered_json>;

}  // namespace forerun
