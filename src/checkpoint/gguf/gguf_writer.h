// A writer of the header of a GGUF file of version 3, little-endian: metadata, then the table of
// tensors, with offsets that are multiples of 32.
//
// Only one thread may use a writer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/gguf_metadata.h"

namespace forerun {

inline constexpr uint64_t kGgufAlignment = 32;  // bytes

class GgufWriter {
 public:
  // Add a value; each key may be added once.
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, int32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, std::span<const std::string_view> values);
  void add(std::string_view key, std::span<const int32_t> values);
  void add(std::string_view key, std::span<const float> values);
  // Copies a value of another file.
  void copy(const GgufValue& value);

  // Adds a tensor behind those added before. `shape` has the outermost extent first.
  void add_tensor(std::string_view name, uint32_t ggml_type, std::span<const int64_t> shape,
                  uint64_t bytes);

  // Returns the header's bytes, with which the file begins. offsets() count from the byte after
  // them.
  std::string header() const;
  // Returns one offset per tensor, in the order in which they were added.
  std::span<const uint64_t> offsets() const { return offsets_; }
  // Returns the bytes of all tensors, with the gaps between them.
  uint64_t data_bytes() const { return data_bytes_; }

 private:
  void add_key(std::string_view key, GgufType type);
  template <class T>
  void put(T number);
  void put_text(std::string_view text);
  template <class T>
  void add_numbers(std::string_view key, GgufType type, std::span<const T> values);

  std::string values_;
  std::string tensors_;
  uint64_t num_values_ = 0;
  std::vector<uint64_t> offsets_;
  uint64_t data_bytes_ = 0;
};

}  // namespace forerun
