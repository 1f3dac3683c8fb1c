// Reading of JSON configuration with messages that name file, field, what was found and what is
// accepted. A Field is a view of a value and its path; the document must outlive it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun::text {

class Field {
 public:
  // `path` names the value in messages, e.g. "tokenizer.json: normalizer".
  Field(const nlohmann::json* value, std::string path) : value_(value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Absent values read as null.
  bool is_null() const;
  bool is_string() const;
  bool is_object() const;
  bool is_array() const;

  // A member of an object; null if absent or if this is no object.
  Field operator[](const std::string& key) const;

  Result<std::string> as_string() const;
  Result<bool> as_bool() const;
  Result<int64_t> as_int() const;
  Result<std::vector<Field>> as_list() const;
  // Keys in the document's order of an object.
  Result<std::vector<std::string>> keys() const;

  // The default where the member is absent or null.
  Result<bool> bool_or(const std::string& key, bool fallback) const;
  Result<std::string> string_or(const std::string& key, std::string fallback) const;

  // The value as compact JSON, cut after `max_bytes`.
  std::string shown(size_t max_bytes = 80) const;
  // The whole value as compact JSON with sorted keys.
  std::string dump() const;

  // "<path>: found <shown>; accepted: <accepted>".
  Status refuse(std::string_view accepted, StatusCode code = StatusCode::kUnsupported) const;

 private:
  const nlohmann::json* value_;  // null: absent
  std::string path_;
};

}  // namespace forerun::text
