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

// A parsed JSON text with an object at the top level. Copies share it, and many threads may read
// it.
class JsonDocument {
 public:
  // `source` is the name of the text in messages, e.g. the file's path. If a key is repeated, its
  // last value counts, as in Python; with `refuse_repeated_keys` that is a failure.
  static Result<JsonDocument> parse(std::string_view text, std::string source,
                                    bool refuse_repeated_keys = false);
  // Fails with kNotFound if there is no such file.
  static Result<JsonDocument> read(const std::filesystem::path& file, int64_t max_bytes,
                                   bool refuse_repeated_keys = false);

  // Returns a view of the whole document, an object.
  JsonValue root() const { return JsonValue(root_.get(), source_); }

 private:
  JsonDocument(std::shared_ptr<const nlohmann::json> root, std::string source)
      : root_(std::move(root)), source_(std::move(source)) {}
  std::shared_ptr<const nlohmann::json> root_;
  std::string source_;
};

}  // namespace forerun
