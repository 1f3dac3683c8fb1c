// Reads the fields of a request's JSON object, as OpenAI's API has it: a field that is missing or
// null is not given, one that nobody asks for is ignored, one of a wrong type or value is named.
//
//   Fields fields(body);
//   request.max_new_tokens = fields.integer("max_tokens", 1, kMost).value_or(16);
//   if (fields.error()) return *fields.error();
//
// After the first error everything reads as not given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/api_error.h"
#include "server/api/json.h"

namespace forerun::server {

class Fields {
 public:
  // `object` must outlive it. `path` stands before the names in messages: "stream_options.".
  explicit Fields(const Json& object, std::string path = {});

  std::optional<bool> boolean(const char* name);
  std::optional<double> number(const char* name, double least, double most);
  std::optional<int64_t> integer(const char* name, int64_t least, int64_t most);
  std::optional<std::string> string(const char* name);
  // One of these.
  std::optional<std::string> choice(const char* name, const std::vector<std::string>& accepted);
  // A string, or a list of up to `most` strings.
  std::optional<std::vector<std::string>> strings(const char* name, size_t most);
  std::optional<std::vector<int32_t>> integers(const char* name, size_t most);
  // Null where it is not given.
  const Json* object(const char* name);
  const Json* array(const char* name);
  // Of any type; null where it is not given.
  const Json* any(const char* name);

  // Records that what `name` holds is none of `accepted`.
  void refuse(const char* name, const std::string& accepted);
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const Json& object_;
  const std::string path_;
  std::optional<ApiError> error_;
};

// The object that a request's body holds.
std::optional<ApiError> parse_object(const std::string& body, Json* object);

}  // namespace forerun::server
