#include "json/json_document.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/lfs_pointer.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "json/json_value.h"

namespace forerun {

using nlohmann::json;

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
    // Removes the tag of "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
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
    return JsonValue(root.get(), source).refuse("a JSON object", StatusCode::kCorrupt);
  }
  return JsonDocument(std::move(root), std::move(source));
}

Result<JsonDocument> JsonDocument::read(const std::filesystem::path& file, int64_t max_bytes,
                                        bool refuse_repeated_keys) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    // If a directory may not be searched, it is unknown whether the file exists.
    return Status(StatusCode::kNotFound, file.string() + ": " +
                                             (error ? error.message() : "no such file") +
                                             "; accepted: a JSON file");
  }
  if (!std::filesystem::is_regular_file(file, error)) {
    return Status(StatusCode::kInvalidArgument, file.string() + ": is not a regular file");
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

}  // namespace forerun
