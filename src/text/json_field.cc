#include "text/json_field.h"

#include <nlohmann/json.hpp>

namespace forerun::text {

bool Field::is_null() const { return !value_ || value_->is_null(); }
bool Field::is_string() const { return value_ && value_->is_string(); }
bool Field::is_object() const { return value_ && value_->is_object(); }
bool Field::is_array() const { return value_ && value_->is_array(); }

Field Field::operator[](const std::string& key) const {
  const nlohmann::json* member = nullptr;
  if (is_object()) {
    const auto found = value_->find(key);
    if (found != value_->end()) member = &*found;
  }
  return Field(member, path_ + (path_.ends_with(": ") ? "" : ".") + key);
}

Result<std::string> Field::as_string() const {
  if (!is_string()) return refuse("a string", StatusCode::kCorrupt);
  return value_->get<std::string>();
}

Result<bool> Field::as_bool() const {
  if (!value_ || !value_->is_boolean()) return refuse("true or false", StatusCode::kCorrupt);
  return value_->get<bool>();
}

Result<int64_t> Field::as_int() const {
  if (!value_ || !value_->is_number_integer()) return refuse("an integer", StatusCode::kCorrupt);
  return value_->get<int64_t>();
}

Result<std::vector<Field>> Field::as_list() const {
  if (!is_array()) return refuse("a list", StatusCode::kCorrupt);
  std::vector<Field> out;
  out.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    out.emplace_back(&(*value_)[i], path_ + "[" + std::to_string(i) + "]");
  }
  return out;
}

Result<std::vector<std::string>> Field::keys() const {
  if (!is_object()) return refuse("an object", StatusCode::kCorrupt);
  std::vector<std::string> out;
  for (auto it = value_->begin(); it != value_->end(); ++it) out.push_back(it.key());
  return out;
}

Result<bool> Field::bool_or(const std::string& key, bool fallback) const {
  const Field member = (*this)[key];
  if (member.is_null()) return fallback;
  return member.as_bool();
}

Result<std::string> Field::string_or(const std::string& key, std::string fallback) const {
  const Field member = (*this)[key];
  if (member.is_null()) return fallback;
  return member.as_string();
}

std::string Field::shown(size_t max_bytes) const {
  if (!value_) return "nothing";
  std::string text = dump();
  if (text.size() > max_bytes) text = text.substr(0, max_bytes) + "...";
  return text;
}

std::string Field::dump() const {
  if (!value_) return "null";
  return value_->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Status Field::refuse(std::string_view accepted, StatusCode code) const {
  return Status(code, path_ + ": found " + shown() + "; accepted: " + std::string(accepted));
}

}  // namespace forerun::text
