// The metadata of a GGUF file: values of 13 types by key, and a reader that converts them to native
// types. Its errors name the file, the key, what was found and what is accepted.
//
// Keys, strings and arrays are views of the file's bytes, which must outlive them.
//
// Many threads may read a GgufMetadata; only one thread may use a reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// Types of values, with the format's numbers.
enum class GgufType : uint8_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};
inline constexpr uint32_t kNumGgufTypes = 13;

// Returns the bytes of one value; 0 for strings and arrays, which have no fixed size.
size_t gguf_type_bytes(GgufType type);

struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::kUint8;
  // The number, the text of the string, or the elements of the array as in the file.
  std::span<const std::byte> bytes;

  // The next three fields are set for arrays only.
  GgufType element_type = GgufType::kUint8;
  uint64_t count = 0;
  std::vector<std::string_view> strings;  // the elements of an array of strings
};

class GgufMetadata {
 public:
  GgufMetadata() = default;  // has no values
  // Returns kCorrupt if two values have the same key.
  static Result<GgufMetadata> make(std::vector<GgufValue> values);

  // Returns all values, in the file's order.
  std::span<const GgufValue> values() const { return values_; }
  // Returns null if there is no such key.
  const GgufValue* find(std::string_view key) const;

 private:
  std::vector<GgufValue> values_;
  std::vector<uint32_t> by_key_;  // indices of the values, in the order of their keys
};

// A reader that remembers its first failure: call all getters, then check status() once. After a
// failure every key reads as absent. The getters' results live as long as the metadata and the
// file's bytes.
class GgufMetadataReader {
 public:
  // `source` is the name of the file in messages, e.g. its path; empty if the reader of the message
  // knows it. The metadata must outlive the reader.
  explicit GgufMetadataReader(const GgufMetadata& metadata, std::string source = {});

  bool has(std::string_view key) const;

  // Return unset if the key is absent, or if its value is not of this kind or range (both
  // inclusive), which also records a failure. Integers may have any of the eight integer types. NaN
  // is outside of every range.
  std::optional<int64_t> integer(std::string_view key, int64_t min, int64_t max);
  std::optional<uint64_t> unsigned_integer(std::string_view key, uint64_t min, uint64_t max);
  std::optional<float> number(std::string_view key, double min, double max);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string_view> string(std::string_view key);
  // Returns the strings of an array.
  std::optional<std::span<const std::string_view>> strings(std::string_view key);
  // Returns one integer or an array of them.
  std::optional<std::vector<int64_t>> integers(std::string_view key, int64_t min, int64_t max);
  // Returns one number or an array of them.
  std::optional<std::vector<float>> numbers(std::string_view key, double min, double max);
  // Works as numbers() does, with true as 1 and false as 0.
  std::optional<std::vector<float>> numbers_or_booleans(std::string_view key, double min,
                                                        double max);

  // Returns an id from 0 on. Unset, without a failure, if the key says that there is no such token:
  // -1, also in llama.cpp's unsigned 32-bit form.
  std::optional<int32_t> token_id(std::string_view key);

  // Works as integer() does, but records a failure and returns 1 if the key is absent.
  int64_t required_integer(std::string_view key, int64_t min, int64_t max);
  // Works as string() does, but records a failure and returns "" if the key is absent or its string
  // empty.
  std::string_view required_string(std::string_view key);

  // Records "SOURCE: metadata key "KEY": found FOUND; accepted: ACCEPTED". Without `found`,
  // describes the key's own value. Keeps only the first failure.
  void refuse(std::string_view key, std::string_view accepted,
              StatusCode code = StatusCode::kInvalidArgument,
              std::optional<std::string> found = std::nullopt);
  // Does the same for a tensor of the file: SOURCE: tensor "NAME": found FOUND; accepted: ACCEPTED.
  void refuse_tensor(std::string_view name, std::string_view found, std::string_view accepted,
                     StatusCode code = StatusCode::kCorrupt);
  bool ok() const { return status_.ok(); }
  Status status() const { return status_; }

 private:
  // Returns null if the key is absent or a failure is recorded.
  const GgufValue* value_of(std::string_view key) const;
  // Returns the value, or the elements of the array, each converted by `convert`, which returns an
  // optional.
  template <class T, class Convert>
  std::optional<std::vector<T>> list(std::string_view key, std::string_view accepted,
                                     const Convert& convert, bool takes_booleans = false);

  const GgufMetadata& metadata_;
  std::string source_;
  Status status_;
};

}  // namespace forerun
