// A writer of GGUF files for tests: metadata and tensors of every type, parts of split models, and
// corrupt files. It shares no code with the reader.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace forerun {

template <class T>
std::string gguf_bytes(T number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// Returns a string in the file's form: its length, then its text.
inline std::string gguf_string(std::string_view text) {
  return gguf_bytes<uint64_t>(text.size()).append(text);
}

// Returns the format's number of a value type.
template <class T>
constexpr uint32_t gguf_type_number() {
  if constexpr (std::is_same_v<T, uint8_t>) return 0;
  if constexpr (std::is_same_v<T, int8_t>) return 1;
  if constexpr (std::is_same_v<T, uint16_t>) return 2;
  if constexpr (std::is_same_v<T, int16_t>) return 3;
  if constexpr (std::is_same_v<T, uint32_t>) return 4;
  if constexpr (std::is_same_v<T, int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_same_v<T, std::string>) return 8;
  if constexpr (std::is_same_v<T, uint64_t>) return 10;
  if constexpr (std::is_same_v<T, int64_t>) return 11;
  if constexpr (std::is_same_v<T, double>) return 12;
  return 13;  // no such type
}
inline constexpr uint32_t kGgufArrayNumber = 9;

class GgufRig {
 public:
  // Numbers that the file states; the counts are the true ones if unset.
  uint32_t version = 3;
  uint32_t alignment = 32;  // of the data; the caller adds the metadata value
  std::optional<uint64_t> num_values;
  std::optional<uint64_t> num_tensors;

  // T must be one of the types of gguf_type_number().
  template <class T>
  GgufRig& value(std::string_view key, const T& value) {
    static_assert(gguf_type_number<T>() < 13);
    return raw_value(key, gguf_type_number<T>(), element(value));
  }
  GgufRig& value(std::string_view key, const char* text) { return value(key, std::string(text)); }
  template <class T>
  GgufRig& array(std::string_view key, const std::vector<T>& values) {
    std::string bytes = gguf_bytes(gguf_type_number<T>()) + gguf_bytes<uint64_t>(values.size());
    for (const T& each : values) bytes += element(each);
    return raw_value(key, kGgufArrayNumber, bytes);
  }
  // Adds a value with `bytes` as they are.
  GgufRig& raw_value(std::string_view key, uint32_t type, std::string_view bytes) {
    values_ += gguf_string(key) + gguf_bytes(type);
    values_ += bytes;
    ++true_num_values_;
    return *this;
  }

  // Adds a tensor. `shape` has the outermost extent first. `bytes` follow those of the previous
  // tensor, aligned; the file states `offset` instead of the true one if it is set.
  GgufRig& tensor(std::string_view name, uint32_t ggml_type, const std::vector<uint64_t>& shape,
                  std::string_view bytes, std::optional<uint64_t> offset = std::nullopt) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    tensors_ += gguf_string(name) + gguf_bytes(static_cast<uint32_t>(shape.size()));
    for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) {
      tensors_ += gguf_bytes(*extent);
    }
    tensors_ += gguf_bytes(ggml_type) + gguf_bytes(offset.value_or(data_.size()));
    data_ += bytes;
    ++true_num_tensors_;
    return *this;
  }

  // Adds the three values of a part of a split model; `part_idx` counts from 0.
  GgufRig& split(uint16_t part_idx, uint16_t num_parts, int32_t num_tensors_of_all) {
    return value("split.no", part_idx)
        .value("split.count", num_parts)
        .value("split.tensors.count", num_tensors_of_all);
  }

  // Returns all bytes before the tensors' bytes, without padding.
  std::string header() const {
    return "GGUF" + gguf_bytes(version) + gguf_bytes(num_tensors.value_or(true_num_tensors_)) +
           gguf_bytes(num_values.value_or(true_num_values_)) + values_ + tensors_;
  }
  // Returns the whole file, which ends with the last tensor.
  std::string bytes() const {
    std::string file = header();
    if (true_num_tensors_ == 0) return file;
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data_;
  }
  void write(const std::filesystem::path& path) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes();
  }

 private:
  template <class T>
  static std::string element(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      return gguf_string(value);
    } else {
      return gguf_bytes(value);
    }
  }

  std::string values_;
  std::string tensors_;
  std::string data_;
  uint64_t true_num_values_ = 0;
  uint64_t true_num_tensors_ = 0;
};

}  // namespace forerun
