#include "checkpoint/json_fields.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/lfs_pointer.h"
#include "base/status_macros.h"

namespace forerun {
namespace {

using nlohmann::json;

// Nested values are named by their kind only: printing them recurses as deep as the text nests.
std::string describe(const json* value) {
  if (value == nullptr) return "nothing";
  if (value->is_object()) return "an object";
  if (value->is_array()) return "a list of " + std::to_string(value->size());
  if (value->is_string()) return in_quotes(value->get_ref<const std::string&>());
  return printable(value->dump());
}

std::optional<int64_t> as_integer(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::abs(number) < 0x1p53 && number == std::floor(number)) {
      return static_cast<int64_t>(number);
    }
  }
  return std::nullopt;
}

std::string plain_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string integer_range(int64_t min, int64_t max) {
  return "an integer from " + std::to_string(min) + " to " + std::to_string(max);
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr size_t kMaxBytes = 120;
  std::string result;
  for (const char c : text.substr(0, kMaxBytes)) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
      result += escaped;
    } else {
      result += c;
    }
  }
  if (text.size() > kMaxBytes) result += "...";
  return result;
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  result += printable(text);
  result += '"';
  return result;
}

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string source,
                                         bool refuse_repeated_keys) {
  std::vector<std::set<std::string>> open_objects;
  std::string repeated;
  const json::parser_callback_t watch_keys = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key &&
        !open_objects.back().insert(parsed.get<std::string>()).second && repeated.empty()) {
      repeated = parsed.get<std::string>();
    }
    return true;
  };
  auto root = std::make_shared<json>();
  try {
    *root = refuse_repeated_keys ? json::parse(text.begin(), text.end(), watch_keys)
                                 : json::parse(text.begin(), text.end());
  } catch (const json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without its tag.
    const std::string_view what = error.what();
    const size_t tag_end = what.find("] ");
    return Status(StatusCode::kCorrupt,
                  source + ": not valid JSON: " +
                      printable(what.substr(tag_end == what.npos ? 0 : tag_end + 2)));
  }
  if (!repeated.empty()) {
    return Status(StatusCode::kCorrupt,
                  source + ": field \"" + printable(repeated) + "\": found twice; accepted: once");
  }
  if (!root->is_object()) {
    return Status(StatusCode::kCorrupt,
                  source + ": found " + describe(root.get()) + "; accepted: a JSON object");
  }
  return JsonDocument(std::move(root), std::move(source));
}

Result<JsonDocument> JsonDocument::read(const std::filesystem::path& file, int64_t max_bytes,
                                        bool refuse_repeated_keys) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    // A directory that may not be entered says neither that it has the file nor that it has not.
    return Status(StatusCode::kNotFound,
                  file.string() + ": " + (error ? error.message() : "no such file"));
  }
  if (!std::filesystem::is_regular_file(file, error)) {
    return Status(StatusCode::kInvalidArgument, file.string() + ": is no regular file");
  }
  const auto bytes = std::filesystem::file_size(file, error);
  if (error) return Status(StatusCode::kNotFound, file.string() + ": " + error.message());
  if (bytes > static_cast<uintmax_t>(max_bytes)) {
    return Status(StatusCode::kCorrupt, file.string() + ": found " + std::to_string(bytes) +
                                            " bytes; accepted: at most " +
                                            std::to_string(max_bytes));
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return Status(StatusCode::kNotFound,
                  file.string() + ": cannot be read" +
                      (errno == 0 ? "" : ": " + std::string(std::strerror(errno))));
  }
  FORERUN_RETURN_IF_ERROR(refuse_lfs_pointer(text, file.string()));
  return parse(text, file.string(), refuse_repeated_keys);
}

FieldReader::FieldReader(const JsonDocument& document)
    : FieldReader(&document.root(), document.source(), "", std::make_shared<Status>()) {}

FieldReader::FieldReader(const json* node, std::string source, std::string path,
                         std::shared_ptr<Status> status)
    : node_(node), source_(std::move(source)), path_(std::move(path)), status_(std::move(status)) {}

const json* FieldReader::find(std::string_view field) const {
  const auto it = node_->find(std::string(field));
  return it == node_->end() ? nullptr : &*it;
}

bool FieldReader::names(std::string_view field) const { return find(field) != nullptr; }

bool FieldReader::has(std::string_view field) const {
  const json* value = find(field);
  return value != nullptr && !value->is_null();
}

bool FieldReader::truthy(std::string_view field) const {
  const json* value = find(field);
  if (value == nullptr || value->is_null()) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return value->get<double>() != 0.0;
  if (value->is_string()) return !value->get_ref<const std::string&>().empty();
  return !value->empty();
}

std::optional<int64_t> FieldReader::integer(std::string_view field, int64_t min, int64_t max) {
  if (!has(field)) return std::nullopt;
  const auto value = as_integer(*find(field));
  if (!value || *value < min || *value > max) {
    refuse(StatusCode::kInvalidArgument, field, integer_range(min, max));
    return std::nullopt;
  }
  return value;
}

int64_t FieldReader::required_integer(std::string_view field, int64_t min, int64_t max) {
  if (!has(field)) refuse(StatusCode::kInvalidArgument, field, integer_range(min, max));
  return integer(field, min, max).value_or(1);
}

std::optional<float> FieldReader::number(std::string_view field, double min, double max) {
  if (!has(field)) return std::nullopt;
  const json* value = find(field);
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= min && number <= max)) {
    refuse(StatusCode::kInvalidArgument, field,
           "a number from " + plain_number(min) + " to " + plain_number(max));
    return std::nullopt;
  }
  return static_cast<float>(number);
}

std::optional<bool> FieldReader::boolean(std::string_view field) {
  if (!has(field)) return std::nullopt;
  const json* value = find(field);
  if (!value->is_boolean()) {
    refuse(StatusCode::kInvalidArgument, field, "true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::string> FieldReader::string(std::string_view field) {
  if (!has(field)) return std::nullopt;
  const json* value = find(field);
  if (!value->is_string()) {
    refuse(StatusCode::kInvalidArgument, field, "a string");
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> FieldReader::strings(std::string_view field) {
  if (!has(field)) return std::nullopt;
  const json* value = find(field);
  std::vector<std::string> result;
  bool all_strings = value->is_array();
  if (all_strings) {
    for (const json& element : *value) {
      if (element.is_string()) {
        result.push_back(element.get<std::string>());
      } else {
        all_strings = false;
      }
    }
  }
  if (!all_strings) {
    refuse(StatusCode::kInvalidArgument, field, "a list of strings");
    return std::nullopt;
  }
  return result;
}

std::optional<std::vector<int64_t>> FieldReader::integers(std::string_view field, int64_t min,
                                                          int64_t max) {
  if (!has(field)) return std::nullopt;
  const json* value = find(field);
  std::vector<int64_t> result;
  const auto add = [&](const json& element) {
    const auto number = as_integer(element);
    if (!number || *number < min || *number > max) return false;
    result.push_back(*number);
    return true;
  };
  bool accepted = true;
  if (value->is_array()) {
    for (const json& element : *value) accepted = accepted && add(element);
  } else {
    accepted = add(*value);
  }
  if (!accepted) {
    refuse(StatusCode::kInvalidArgument, field, integer_range(min, max) + ", or a list of them");
    return std::nullopt;
  }
  return result;
}

std::optional<std::vector<float>> FieldReader::numbers(std::string_view field, double min,
                                                       double max) {
  if (!has(field)) return std::nullopt;
  const json* value = find(field);
  std::vector<float> result;
  bool accepted = value->is_array();
  if (accepted) {
    for (const json& element : *value) {
      const double number = element.is_number() ? element.get<double>() : NAN;
      accepted = accepted && number >= min && number <= max;
      result.push_back(static_cast<float>(number));
    }
  }
  if (!accepted) {
    refuse(StatusCode::kInvalidArgument, field,
           "a list of numbers from " + plain_number(min) + " to " + plain_number(max));
    return std::nullopt;
  }
  return result;
}

std::optional<FieldReader> FieldReader::object(std::string_view field) {
  if (!has(field)) return std::nullopt;
  const json* value = find(field);
  if (!value->is_object()) {
    refuse(StatusCode::kInvalidArgument, field, "an object");
    return std::nullopt;
  }
  return FieldReader(value, source_, path_ + std::string(field) + ".", status_);
}

std::optional<std::vector<FieldReader>> FieldReader::objects(std::string_view field) {
  if (!has(field)) return std::nullopt;
  const json* value = find(field);
  std::vector<FieldReader> result;
  bool all_objects = value->is_array();
  if (all_objects) {
    for (const json& element : *value) {
      all_objects = all_objects && element.is_object();
      const std::string index = "[" + std::to_string(result.size()) + "].";
      result.push_back(FieldReader(&element, source_, path_ + std::string(field) + index, status_));
    }
  }
  if (!all_objects) {
    refuse(StatusCode::kInvalidArgument, field, "a list of objects");
    return std::nullopt;
  }
  return result;
}

std::string FieldReader::required_string(std::string_view field) {
  std::string value = string(field).value_or("");
  if (value.empty()) refuse(StatusCode::kInvalidArgument, field, "a string that is not empty");
  return value;
}

void FieldReader::accept_only(std::initializer_list<std::string_view> fields) {
  for (auto it = node_->begin(); it != node_->end(); ++it) {
    if (std::find(fields.begin(), fields.end(), it.key()) != fields.end()) continue;
    std::string accepted = "only";
    for (const std::string_view field : fields) {
      accepted += (field == *fields.begin() ? " " : ", ") + std::string(field);
    }
    refuse(StatusCode::kInvalidArgument, it.key(), accepted);
  }
}

std::vector<std::string> FieldReader::keys() const {
  std::vector<std::string> result;
  for (auto it = node_->begin(); it != node_->end(); ++it) result.push_back(it.key());
  return result;
}

void FieldReader::refuse(StatusCode code, std::string_view field, std::string_view accepted,
                         std::optional<std::string> found) {
  if (!status_->ok()) return;
  const std::string what = found ? *found : describe(find(field));
  *status_ = Status(code, source_ + ": field \"" + path_ + std::string(field) + "\": found " +
                              what + "; accepted: " + std::string(accepted));
}

}  // namespace forerun
