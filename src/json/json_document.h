// JSON files, parsed once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "forerun/status.h"
#include "json/json_value.h"

namespace forerun {

// A parsed JSON text whose top is an object; copies share it, and it may be read from many threads.
class JsonDocument {
 public:
  // `source` is what messages call the text, e.g. the file's path. Of a repeated key the last one
  // counts, as in Python, unless `refuse_repeated_keys`.
  static Result<JsonDocument> parse(std::string_view text, std::string source,
                                    bool refuse_repeated_keys = false);
  // kNotFound where there is no such file.
  static Result<JsonDocument> read(const std::filesystem::path& file, int64_t max_bytes,
                                   bool refuse_repeated_keys = false);

  // All of it, an object; a view.
  JsonValue root() const { return JsonValue(root_.get(), source_); }

 private:
  JsonDocument(std::shared_ptr<const nlohmann::json> root, std::string source)
      : root_(std::move(root)), source_(std::move(source)) {}
  std::shared_ptr<const nlohmann::json> root_;
  std::string source_;
};

}  // namespace forerun
