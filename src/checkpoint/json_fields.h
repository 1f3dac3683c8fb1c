// Fields of a JSON object, read to native types with errors that name the file, the field, what was
// found and what is accepted. For the .cc files that read a format; no other header includes it.
//
// A reader remembers its first failure, and so do the readers of nested objects made from it: call
// every getter, then look at status() once. An absent field and null are the same unless stated.
//
// Thread rules: a JsonDocument may be read from many threads, a FieldReader from one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// `text` as it may stand in a one-line message: control characters and quotes escaped, cut after
// 120 bytes.
std::string printable(std::string_view text);
// The same in double quotes.
std::string in_quotes(std::string_view text);

// A parsed JSON text whose top is an object; copies share it.
class JsonDocument {
 public:
  // `source` is what messages call the text, e.g. the file's path. Of a repeated key the last one
  // counts, as in Python, unless `refuse_repeated_keys`.
  static Result<JsonDocument> parse(std::string_view text, std::string source,
                                    bool refuse_repeated_keys = false);
  // kNotFound where there is no such file.
  static Result<JsonDocument> read(const std::filesystem::path& file, int64_t max_bytes,
                                   bool refuse_repeated_keys = false);

  const std::string& source() const { return source_; }
  const nlohmann::json& root() const { return *root_; }

 private:
  JsonDocument(std::shared_ptr<const nlohmann::json> root, std::string source)
      : root_(std::move(root)), source_(std::move(source)) {}
  std::shared_ptr<const nlohmann::json> root_;
  std::string source_;
};

class FieldReader {
 public:
  // `document` must outlive the reader.
  explicit FieldReader(const JsonDocument& document);

  // The field is there, even if null.
  bool names(std::string_view field) const;
  // The field is there and not null.
  bool has(std::string_view field) const;
  // Neither absent nor null, false, 0, "", [] or {}: what Python calls true.
  bool truthy(std::string_view field) const;

  // Unset if absent, null or, with a failure recorded, not of this kind or range (both inclusive).
  // An integral float such as 4096.0 counts as an integer.
  std::optional<int64_t> integer(std::string_view field, int64_t min, int64_t max);
  std::optional<float> number(std::string_view field, double min, double max);
  std::optional<bool> boolean(std::string_view field);
  std::optional<std::string> string(std::string_view field);
  std::optional<std::vector<std::string>> strings(std::string_view field);
  // One integer or a list of them.
  std::optional<std::vector<int64_t>> integers(std::string_view field, int64_t min, int64_t max);
  std::optional<std::vector<float>> numbers(std::string_view field, double min, double max);
  std::optional<FieldReader> object(std::string_view field);
  // A list of objects; their fields are named FIELD[0].NAME and so on.
  std::optional<std::vector<FieldReader>> objects(std::string_view field);

  // As integer(), but records a failure if the field is absent or null; 1 then.
  int64_t required_integer(std::string_view field, int64_t min, int64_t max);

  // As string(), but records a failure if the field is absent, null or empty; "" then.
  std::string required_string(std::string_view field);

  // The keys of this object.
  std::vector<std::string> keys() const;
  // Records a failure if there is any field but these.
  void accept_only(std::initializer_list<std::string_view> fields);

  // Records: SOURCE: field "F": found FOUND; accepted: ACCEPTED. Without `found`, the field's own
  // value is described. Keeps only the first failure.
  void refuse(StatusCode code, std::string_view field, std::string_view accepted,
              std::optional<std::string> found = std::nullopt);
  bool ok() const { return status_->ok(); }
  Status status() const { return *status_; }

 private:
  FieldReader(const nlohmann::json* node, std::string source, std::string path,
              std::shared_ptr<Status> status);
  const nlohmann::json* find(std::string_view field) const;

  const nlohmann::json* node_;
  std::string source_;
  std::string path_;  // of this object within the document, e.g. "rope_scaling."
  std::shared_ptr<Status> status_;
};

}  // namespace forerun
