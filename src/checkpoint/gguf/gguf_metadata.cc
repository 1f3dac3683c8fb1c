#include "checkpoint/gguf/gguf_metadata.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/printable.h"

namespace forerun {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF values are read as they lie");

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Returns unset if the value at `from` is no integer or exceeds 2^63 - 1.
std::optional<int64_t> integer_at(GgufType type, const std::byte* from) {
  switch (type) {
    case GgufType::kUint8:
      return load<uint8_t>(from);
    case GgufType::kInt8:
      return load<int8_t>(from);
    case GgufType::kUint16:
      return load<uint16_t>(from);
    case GgufType::kInt16:
      return load<int16_t>(from);
    case GgufType::kUint32:
      return load<uint32_t>(from);
    case GgufType::kInt32:
      return load<int32_t>(from);
    case GgufType::kInt64:
      return load<int64_t>(from);
    case GgufType::kUint64: {
      const auto value = load<uint64_t>(from);
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> unsigned_at(GgufType type, const std::byte* from) {
  if (type == GgufType::kUint64) return load<uint64_t>(from);
  const std::optional<int64_t> value = integer_at(type, from);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<uint64_t>(*value);
}

std::optional<double> number_at(GgufType type, const std::byte* from) {
  if (type == GgufType::kFloat32) return load<float>(from);
  if (type == GgufType::kFloat64) return load<double>(from);
  if (type == GgufType::kUint64) return static_cast<double>(load<uint64_t>(from));
  const std::optional<int64_t> value = integer_at(type, from);
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

std::string_view gguf_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Describes one value of a type with a fixed size.
std::string described(GgufType type, const std::byte* from) {
  if (type == GgufType::kBool) return load<uint8_t>(from) != 0 ? "true" : "false";
  if (type == GgufType::kUint64) return std::to_string(load<uint64_t>(from));
  if (const auto integer = integer_at(type, from)) return std::to_string(*integer);
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", number_at(type, from).value_or(0));
  return text;
}

std::string_view plural(GgufType type) {
  switch (type) {
    case GgufType::kFloat32:
    case GgufType::kFloat64:
      return "floats";
    case GgufType::kBool:
      return "booleans";
    case GgufType::kString:
      return "strings";
    case GgufType::kArray:
      return "arrays";
    default:
      return "integers";
  }
}

std::string described(const GgufValue* value) {
  if (value == nullptr) return "nothing";
  if (value->type == GgufType::kString) return in_quotes(gguf_text(value->bytes));
  if (value->type != GgufType::kArray) return described(value->type, value->bytes.data());
  return "an array of " + std::to_string(value->count) + " " +
         std::string(plural(value->element_type));
}

std::string integer_range(int64_t min, int64_t max) {
  if (min == INT64_MIN && max == INT64_MAX) return "an integer of 64 bits";
  return "an integer from " + std::to_string(min) + " to " + std::to_string(max);
}

std::string number_range(double min, double max) {
  if (min <= -FLT_MAX && max >= FLT_MAX) return "a number of 32 bits";
  char text[80];
  std::snprintf(text, sizeof text, "a number from %g to %g", min, max);
  return text;
}

std::optional<int64_t> integer_within(GgufType type, const std::byte* from, int64_t min,
                                      int64_t max) {
  const std::optional<int64_t> value = integer_at(type, from);
  return value && *value >= min && *value <= max ? value : std::nullopt;
}

std::optional<float> number_within(GgufType type, const std::byte* from, double min, double max) {
  const std::optional<double> value = number_at(type, from);
  if (!value || !(*value >= min && *value <= max)) return std::nullopt;
  return static_cast<float>(*value);
}

}  // namespace

size_t gguf_type_bytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

Result<GgufMetadata> GgufMetadata::make(std::vector<GgufValue> values) {
  GgufMetadata metadata;
  metadata.values_ = std::move(values);
  metadata.by_key_.resize(metadata.values_.size());
  std::iota(metadata.by_key_.begin(), metadata.by_key_.end(), 0U);
  const auto key_of = [&](uint32_t idx) { return metadata.values_[idx].key; };
  std::sort(metadata.by_key_.begin(), metadata.by_key_.end(),
            [&](uint32_t left, uint32_t right) { return key_of(left) < key_of(right); });
  const auto twice = std::adjacent_find(
      metadata.by_key_.begin(), metadata.by_key_.end(),
      [&](uint32_t left, uint32_t right) { return key_of(left) == key_of(right); });
  if (twice != metadata.by_key_.end()) {
    return Status(StatusCode::kCorrupt, "metadata key " + in_quotes(key_of(*twice)) +
                                            ": found twice; accepted: every key once");
  }
  return metadata;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = std::lower_bound(
      by_key_.begin(), by_key_.end(), key,
      [&](uint32_t idx, std::string_view wanted) { return values_[idx].key < wanted; });
  return found != by_key_.end() && values_[*found].key == key ? &values_[*found] : nullptr;
}

GgufMetadataReader::GgufMetadataReader(const GgufMetadata& metadata, std::string source)
    : metadata_(metadata), source_(std::move(source)) {}

const GgufValue* GgufMetadataReader::value_of(std::string_view key) const {
  return ok() ? metadata_.find(key) : nullptr;
}

bool GgufMetadataReader::has(std::string_view key) const { return value_of(key) != nullptr; }

std::optional<int64_t> GgufMetadataReader::integer(std::string_view key, int64_t min, int64_t max) {
  const GgufValue* const value = value_of(key);
  if (value == nullptr) return std::nullopt;
  const auto integer = integer_within(value->type, value->bytes.data(), min, max);
  if (!integer) refuse(key, integer_range(min, max));
  return integer;
}

std::optional<uint64_t> GgufMetadataReader::unsigned_integer(std::string_view key, uint64_t min,
                                                             uint64_t max) {
  const GgufValue* const value = value_of(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<uint64_t> integer = unsigned_at(value->type, value->bytes.data());
  if (integer && *integer >= min && *integer <= max) return integer;
  refuse(key, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return std::nullopt;
}

std::optional<float> GgufMetadataReader::number(std::string_view key, double min, double max) {
  const GgufValue* const value = value_of(key);
  if (value == nullptr) return std::nullopt;
  const auto number = number_within(value->type, value->bytes.data(), min, max);
  if (!number) refuse(key, number_range(min, max));
  return number;
}

std::optional<bool> GgufMetadataReader::boolean(std::string_view key) {
  const GgufValue* const value = value_of(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == GgufType::kBool) return load<uint8_t>(value->bytes.data()) != 0;
  refuse(key, "true or false");
  return std::nullopt;
}

std::optional<std::string_view> GgufMetadataReader::string(std::string_view key) {
  const GgufValue* const value = value_of(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == GgufType::kString) return gguf_text(value->bytes);
  refuse(key, "a string");
  return std::nullopt;
}

std::optional<std::span<const std::string_view>> GgufMetadataReader::strings(std::string_view key) {
  const GgufValue* const value = value_of(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == GgufType::kArray && value->element_type == GgufType::kString) {
    return value->strings;
  }
  refuse(key, "an array of strings");
  return std::nullopt;
}

template <class T, class Convert>
std::optional<std::vector<T>> GgufMetadataReader::list(std::string_view key,
                                                       std::string_view accepted,
                                                       const Convert& convert,
                                                       bool takes_booleans) {
  const GgufValue* const value = value_of(key);
  if (value == nullptr) return std::nullopt;
  const bool is_array = value->type == GgufType::kArray;
  const GgufType type = is_array ? value->element_type : value->type;
  const size_t stride = gguf_type_bytes(type);
  if (stride == 0 || (type == GgufType::kBool && !takes_booleans)) {
    refuse(key, std::string(accepted) + ", or an array of them");
    return std::nullopt;
  }
  const size_t count = is_array ? value->count : 1;
  std::vector<T> elements;
  elements.reserve(count);
  for (size_t idx = 0; idx < count; ++idx) {
    const std::byte* const from = value->bytes.data() + idx * stride;
    const std::optional<T> element = convert(type, from);
    if (!element) {
      std::string found = described(type, from);
      if (is_array) found += " as element " + std::to_string(idx);
      refuse(key, accepted, StatusCode::kInvalidArgument, std::move(found));
      return std::nullopt;
    }
    elements.push_back(*element);
  }
  return elements;
}

std::optional<std::vector<int64_t>> GgufMetadataReader::integers(std::string_view key, int64_t min,
                                                                 int64_t max) {
  return list<int64_t>(key, integer_range(min, max), [=](GgufType type, const std::byte* from) {
    return integer_within(type, from, min, max);
  });
}

std::optional<std::vector<float>> GgufMetadataReader::numbers(std::string_view key, double min,
                                                              double max) {
  return list<float>(key, number_range(min, max), [=](GgufType type, const std::byte* from) {
    return number_within(type, from, min, max);
  });
}

std::optional<std::vector<float>> GgufMetadataReader::numbers_or_booleans(std::string_view key,
                                                                          double min, double max) {
  return list<float>(
      key, number_range(min, max),
      [=](GgufType type, const std::byte* from) -> std::optional<float> {
        if (type == GgufType::kBool) return load<uint8_t>(from) != 0 ? 1.0f : 0.0f;
        return number_within(type, from, min, max);
      },
      true);
}

std::optional<int32_t> GgufMetadataReader::token_id(std::string_view key) {
  const GgufValue* const value = value_of(key);
  if (value == nullptr) return std::nullopt;
  const auto id = integer_at(value->type, value->bytes.data());
  if (id == -1 || id == int64_t{UINT32_MAX}) return std::nullopt;
  const auto checked = integer(key, -1, INT32_MAX);
  return checked ? std::optional<int32_t>(static_cast<int32_t>(*checked)) : std::nullopt;
}

int64_t GgufMetadataReader::required_integer(std::string_view key, int64_t min, int64_t max) {
  if (!has(key)) refuse(key, integer_range(min, max));
  return integer(key, min, max).value_or(1);
}

std::string_view GgufMetadataReader::required_string(std::string_view key) {
  const std::string_view text = string(key).value_or("");
  if (text.empty()) refuse(key, "a string that is not empty");
  return text;
}

void GgufMetadataReader::refuse(std::string_view key, std::string_view accepted, StatusCode code,
                                std::optional<std::string> found) {
  if (!ok()) return;
  const std::string shown = found ? std::move(*found) : described(metadata_.find(key));
  status_ =
      Status(code, (source_.empty() ? "" : source_ + ": ") + "metadata key " + in_quotes(key) +
                       ": found " + shown + "; accepted: " + std::string(accepted));
}

void GgufMetadataReader::refuse_tensor(std::string_view name, std::string_view found,
                                       std::string_view accepted, StatusCode code) {
  if (!ok()) return;
  status_ =
      Status(code, (source_.empty() ? "" : source_ + ": ") + "tensor " + in_quotes(name) +
                       ": found " + std::string(found) + "; accepted: " + std::string(accepted));
}

}  // namespace forerun
