#include "checkpoint/gguf/gguf_writer.h"

#include <cstring>

namespace forerun {
namespace {

constexpr uint32_t kWrittenVersion = 3;

template <class T>
void append_number(std::string& to, T number) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &number, sizeof(T));
  to.append(bytes, sizeof(T));
}

void append_text(std::string& to, std::string_view text) {
  append_number<uint64_t>(to, text.size());
  to.append(text);
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
}

}  // namespace

template <class T>
void GgufWriter::put(T number) {
  append_number(values_, number);
}

void GgufWriter::put_text(std::string_view text) { append_text(values_, text); }

void GgufWriter::add_key(std::string_view key, GgufType type) {
  put_text(key);
  put(static_cast<uint32_t>(type));
  ++num_values_;
}

void GgufWriter::add(std::string_view key, uint32_t value) {
  add_key(key, GgufType::kUint32);
  put(value);
}

void GgufWriter::add(std::string_view key, int32_t value) {
  add_key(key, GgufType::kInt32);
  put(value);
}

void GgufWriter::add(std::string_view key, float value) {
  add_key(key, GgufType::kFloat32);
  put(value);
}

void GgufWriter::add(std::string_view key, bool value) {
  add_key(key, GgufType::kBool);
  put(static_cast<uint8_t>(value ? 1 : 0));
}

void GgufWriter::add(std::string_view key, std::string_view value) {
  add_key(key, GgufType::kString);
  put_text(value);
}

void GgufWriter::add(std::string_view key, std::span<const std::string_view> values) {
  add_key(key, GgufType::kArray);
  put(static_cast<uint32_t>(GgufType::kString));
  put<uint64_t>(values.size());
  for (const std::string_view value : values) put_text(value);
}

template <class T>
void GgufWriter::add_numbers(std::string_view key, GgufType type, std::span<const T> values) {
  add_key(key, GgufType::kArray);
  put(static_cast<uint32_t>(type));
  put<uint64_t>(values.size());
  for (const T value : values) put(value);
}

void GgufWriter::add(std::string_view key, std::span<const int32_t> values) {
  add_numbers(key, GgufType::kInt32, values);
}

void GgufWriter::add(std::string_view key, std::span<const float> values) {
  add_numbers(key, GgufType::kFloat32, values);
}

void GgufWriter::copy(const GgufValue& value) {
  add_key(value.key, value.type);
  if (value.type == GgufType::kString) put<uint64_t>(value.bytes.size());
  if (value.type == GgufType::kArray) {
    put(static_cast<uint32_t>(value.element_type));
    put<uint64_t>(value.count);
  }
  values_.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
}

void GgufWriter::add_tensor(std::string_view name, uint32_t ggml_type,
                            std::span<const int64_t> shape, uint64_t bytes) {
  const uint64_t offset = aligned(data_bytes_);
  append_text(tensors_, name);
  append_number(tensors_, static_cast<uint32_t>(shape.size()));
  for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) {
    append_number(tensors_, static_cast<uint64_t>(*extent));
  }
  append_number(tensors_, ggml_type);
  append_number(tensors_, offset);
  offsets_.push_back(offset);
  data_bytes_ = offset + bytes;
}

std::string GgufWriter::header() const {
  std::string file = "GGUF";
  append_number(file, kWrittenVersion);
  append_number<uint64_t>(file, offsets_.size());
  append_number<uint64_t>(file, num_values_);
  file += values_;
  file += tensors_;
  file.resize(aligned(file.size()));
  return file;
}

}  // namespace forerun
