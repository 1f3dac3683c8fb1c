#include "json/json_value.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.h"

namespace forerun {

template <class Json>
std::optional<int64_t> json_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.template get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.template get<int64_t>();
  if (value.is_number_float()) {
    const auto number = value.template get<double>();
    if (std::abs(number) < 0x1p53 && number == std::floor(number)) {
      return static_cast<int64_t>(number);
    }
  }
  return std::nullopt;
}

namespace {

std::string range(int64_t min, int64_t max) {
  if (min == INT64_MIN && max == INT64_MAX) return "of 64 bits";
  if (max == INT64_MAX) return "of at least " + std::to_string(min);
  return "from " + std::to_string(min) + " to " + std::to_string(max);
}

std::string range(double min, double max) {
  if (min <= -FLT_MAX && max >= FLT_MAX) return "of 32 bits";
  char text[80];
  std::snprintf(text, sizeof text, "from %g to %g", min, max);
  return text;
}

}  // namespace

template <class Json>
std::string BasicJsonValue<Json>::name() const {
  if (source_.empty()) return shown_path();
  return path_.empty() ? source_ : source_ + ": field \"" + shown_path() + "\"";
}

// Returns the end of a long path, which is the most specific part.
template <class Json>
std::string BasicJsonValue<Json>::shown_path() const {
  constexpr size_t kMax = 110;
  if (path_.size() <= kMax) return printable(path_);
  size_t begin = path_.size() - kMax;
  const auto continues = [&](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
  };
  while (begin < path_.size() && continues(path_[begin])) ++begin;
  return "..." + printable(std::string_view(path_).substr(begin));
}

template <class Json>
bool BasicJsonValue<Json>::is_null() const {
  return value_ == nullptr || value_->is_null();
}

template <class Json>
bool BasicJsonValue<Json>::is_string() const {
  return value_ != nullptr && value_->is_string();
}

template <class Json>
bool BasicJsonValue<Json>::is_object() const {
  return value_ != nullptr && value_->is_object();
}

template <class Json>
bool BasicJsonValue<Json>::is_array() const {
  return value_ != nullptr && value_->is_array();
}

template <class Json>
bool BasicJsonValue<Json>::is_truthy() const {
  if (is_null()) return false;
  if (value_->is_boolean()) return value_->template get<bool>();
  if (value_->is_number()) return value_->template get<double>() != 0.0;
  if (value_->is_string()) return !value_->template get_ref<const std::string&>().empty();
  return !value_->empty();
}

template <class Json>
BasicJsonValue<Json> BasicJsonValue<Json>::operator[](std::string_view key) const {
  const Json* member = nullptr;
  if (is_object()) {
    const auto found = value_->find(std::string(key));
    if (found != value_->end()) member = &*found;
  }
  return BasicJsonValue(member, source_, (path_.empty() ? "" : path_ + ".").append(key));
}

template <class Json>
BasicJsonValue<Json> BasicJsonValue<Json>::element(size_t idx) const {
  return BasicJsonValue(&(*value_)[idx], source_, path_ + "[" + std::to_string(idx) + "]");
}

template <class Json>
Result<bool> BasicJsonValue<Json>::as_bool() const {
  if (value_ == nullptr || !value_->is_boolean()) return refuse("true or false");
  return value_->template get<bool>();
}

template <class Json>
Result<int64_t> BasicJsonValue<Json>::as_integer(int64_t min, int64_t max) const {
  const auto number = value_ == nullptr ? std::nullopt : json_integer(*value_);
  if (!number || *number < min || *number > max) return refuse("an integer " + range(min, max));
  return *number;
}

template <class Json>
Result<uint64_t> BasicJsonValue<Json>::as_unsigned(uint64_t min, uint64_t max) const {
  std::optional<uint64_t> number;
  if (value_ != nullptr && value_->is_number_unsigned()) {
    number = value_->template get<uint64_t>();
  } else if (const auto other = value_ == nullptr ? std::nullopt : json_integer(*value_)) {
    if (*other >= 0) number = static_cast<uint64_t>(*other);
  }
  if (number && *number >= min && *number <= max) return *number;
  return refuse("an integer from " + std::to_string(min) + " to " + std::to_string(max));
}

template <class Json>
Result<float> BasicJsonValue<Json>::as_number(double min, double max) const {
  const double number =
      value_ != nullptr && value_->is_number() ? value_->template get<double>() : NAN;
  if (number >= min && number <= max) return static_cast<float>(number);
  return refuse("a number " + range(min, max));
}

template <class Json>
Result<std::string> BasicJsonValue<Json>::as_string() const {
  if (!is_string()) return refuse("a string");
  return value_->template get<std::string>();
}

template <class Json>
Result<std::string> BasicJsonValue<Json>::as_choice(
    const std::vector<std::string>& accepted) const {
  if (is_string()) {
    const auto& found = value_->template get_ref<const std::string&>();
    if (std::find(accepted.begin(), accepted.end(), found) != accepted.end()) return found;
  }
  std::string all;
  for (const std::string& each : accepted) {
    const bool is_last = &each == &accepted.back();
    all += (all.empty() ? "" : is_last ? " or " : ", ") + ("\"" + each + "\"");
  }
  return refuse(all);
}

template <class Json>
Result<std::vector<BasicJsonValue<Json>>> BasicJsonValue<Json>::as_list() const {
  if (!is_array()) return refuse("a list");
  std::vector<BasicJsonValue> elements;
  elements.reserve(value_->size());
  for (size_t idx = 0; idx < value_->size(); ++idx) elements.push_back(element(idx));
  return elements;
}

template <class Json>
Result<std::vector<std::string>> BasicJsonValue<Json>::keys() const {
  if (!is_object()) return refuse("an object");
  std::vector<std::string> keys;
  keys.reserve(value_->size());
  for (auto member = value_->begin(); member != value_->end(); ++member) {
    keys.push_back(member.key());
  }
  return keys;
}

template <class Json>
Result<bool> BasicJsonValue<Json>::bool_or(bool otherwise) const {
  if (is_null()) return otherwise;
  return as_bool();
}

template <class Json>
Result<std::string> BasicJsonValue<Json>::string_or(std::string otherwise) const {
  if (is_null()) return otherwise;
  return as_string();
}

template <class Json>
std::string BasicJsonValue<Json>::described() const {
  if (value_ == nullptr) return "nothing";
  if (value_->is_object()) return "an object";
  if (value_->is_array()) return "a list of " + std::to_string(value_->size());
  if (value_->is_string()) return in_quotes(value_->template get_ref<const std::string&>());
  return printable(value_->dump());
}

template <class Json>
Status BasicJsonValue<Json>::refuse(std::string_view accepted, StatusCode code) const {
  return refuse_as(described(), accepted, code);
}

template <class Json>
Status BasicJsonValue<Json>::refuse_as(std::string_view found, std::string_view accepted,
                                       StatusCode code) const {
  std::string message = name();
  if (!message.empty()) message += ": ";
  return Status(code,
                message.append("found ").append(found).append("; accepted: ").append(accepted));
}

template std::optional<int64_t> json_integer(const nlohmann::json& value);
template std::optional<int64_t> json_integer(const nlohmann::ordered_json& value);
template class BasicJsonValue<nlohmann::json>;
template class BasicJsonValue<nlohmann::ordered_json>;

}  // namespace forerun
