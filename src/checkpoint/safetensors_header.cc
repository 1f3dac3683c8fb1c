#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"

namespace forerun {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxRank = 64;

struct FormatDType {
  std::string_view name;
  uint64_t bits;
  std::optional<DType> dtype;
};

constexpr FormatDType kDTypes[] = {
    {"F32", 32, DType::kF32},       {"BF16", 16, DType::kBf16}, {"F16", 16, DType::kF16},
    {"F8_E4M3", 8, DType::kF8E4M3}, {"I64", 64, DType::kI64},   {"I32", 32, DType::kI32},
    {"I16", 16, DType::kI16},       {"I8", 8, DType::kI8},      {"U8", 8, DType::kU8},
    {"BOOL", 8, DType::kBool},      {"F64", 64, std::nullopt},  {"U64", 64, std::nullopt},
    {"U32", 32, std::nullopt},      {"U16", 16, std::nullopt},  {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},   {"F4", 4, std::nullopt},    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},   {"C64", 64, std::nullopt},
};

const FormatDType* find_dtype(std::string_view name) {
  for (const FormatDType& candidate : kDTypes) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

std::string tensor_label(std::string_view name) { return "tensor " + in_quotes(name); }

// A handler that walks the JSON without building it, since a hostile header may be 100 MB long. The
// grammar is
//   { NAME: {"dtype": STRING, "shape": [N...], "data_offsets": [N, N]}, ...,
//     "__metadata__": {STRING: STRING} }
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<SafetensorsEntry>& entries() { return entries_; }
  const std::string& error() const { return error_; }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number that is no integer");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) {
      if (value > static_cast<uint64_t>(INT64_MAX)) {
        return fail("found a dimension of " + std::to_string(value) +
                    "; accepted: at most 2^63 - 1");
      }
      if (entry_.shape.size() >= kMaxRank) {
        return fail("found more than 64 dimensions; accepted: at most 64");
      }
      entry_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ == State::kOffsets) {
      if (offset_count_ >= 2) {
        return fail("found more than two numbers in \"data_offsets\"; accepted: two");
      }
      (offset_count_++ == 0 ? entry_.begin : entry_.end) = value;
      return true;
    }
    return unexpected("a number");
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) return true;
    if (state_ != State::kDTypeValue) return unexpected("a string");
    entry_.dtype_name = value;
    state_ = State::kTensor;
    return true;
  }

  bool start_object(size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTensorValue) {
      state_ = State::kTensor;
    } else if (state_ == State::kMetadataValue) {
      state_ = State::kMetadata;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor) {
      if (!has_dtype_ || !has_shape_ || offset_count_ != 2) {
        return fail(std::string("found ") +
                    (!has_dtype_   ? "no \"dtype\""
                     : !has_shape_ ? "no \"shape\""
                                   : "fewer than two numbers in \"data_offsets\"") +
                    "; accepted: \"dtype\", \"shape\" and \"data_offsets\", which has two");
      }
      entries_.push_back(std::move(entry_));
    }
    state_ = state_ == State::kTop ? State::kDone : State::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (state_ == State::kShapeValue) {
      state_ = State::kShape;
    } else if (state_ == State::kOffsetsValue) {
      state_ = State::kOffsets;
    } else {
      return unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    state_ = State::kTensor;
    return true;
  }

  bool key(string_t& value) override {
    if (state_ == State::kTop) return top_key(value);
    if (state_ == State::kMetadata) return true;
    // All other keys belong to tensors.
    if (value == "dtype" && !std::exchange(has_dtype_, true)) {
      state_ = State::kDTypeValue;
    } else if (value == "shape" && !std::exchange(has_shape_, true)) {
      state_ = State::kShapeValue;
    } else if (value == "data_offsets" && !std::exchange(has_offsets_, true)) {
      state_ = State::kOffsetsValue;
    } else {
      return fail("found key \"" + printable(value) +
                  "\"; accepted: \"dtype\", \"shape\" and \"data_offsets\", each once");
    }
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = "header is not valid JSON at byte " + std::to_string(position);
    return false;
  }

 private:
  enum class State {
    kStart,
    kTop,
    kTensorValue,
    kTensor,
    kDTypeValue,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
    kMetadataValue,
    kMetadata,
    kDone
  };

  bool top_key(string_t& value) {
    current_ = value;
    if (!names_.insert(value).second) return fail("found twice; accepted: once");
    if (value == "__metadata__") {
      state_ = State::kMetadataValue;
      return true;
    }
    entry_ = SafetensorsEntry();
    entry_.name = value;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offset_count_ = 0;
    state_ = State::kTensorValue;
    return true;
  }

  bool fail(const std::string& reason) {
    error_ = "header: " + tensor_label(current_) + ": " + reason;
    return false;
  }
  bool unexpected(const std::string& found) {
    if (state_ == State::kStart || state_ == State::kTop) {
      error_ = "header: found " + found + "; accepted: an object";
      return false;
    }
    return fail("found " + found + "; accepted: " + accepted_here());
  }
  const char* accepted_here() const {
    switch (state_) {
      case State::kDTypeValue:
      case State::kMetadata:
        return "a string";
      case State::kShapeValue:
      case State::kOffsetsValue:
        return "a list";
      case State::kShape:
      case State::kOffsets:
        return "a whole number, 0 or more";
      default:
        return "an object";
    }
  }

  State state_ = State::kStart;
  std::string current_;
  std::string error_;
  std::unordered_set<std::string> names_;
  std::vector<SafetensorsEntry> entries_;
  SafetensorsEntry entry_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offset_count_ = 0;
};

Status corrupt(std::string message) { return Status(StatusCode::kCorrupt, std::move(message)); }

// Checks dtype × shape against the offsets and makes the offsets absolute.
Status check_entry(SafetensorsEntry& entry, uint64_t data_begin, uint64_t data_bytes) {
  const std::string label = tensor_label(entry.name);
  const FormatDType* dtype = find_dtype(entry.dtype_name);
  if (dtype == nullptr) {
    return corrupt(label + ": found dtype \"" + printable(entry.dtype_name) +
                   "\"; accepted: a dtype of the safetensors format, e.g. BF16");
  }
  entry.dtype = dtype->dtype;
  uint64_t bits = dtype->bits;
  for (const int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(extent), &bits)) {
      return corrupt(label + ": its shape exceeds 2^64 bits");
    }
  }
  if (bits % 8 != 0) return corrupt(label + ": its elements do not fill whole bytes");
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return corrupt(label + ": found bytes " + std::to_string(entry.begin) + " to " +
                   std::to_string(entry.end) + "; accepted: within the " +
                   std::to_string(data_bytes) + " bytes of data in the file (is it truncated?)");
  }
  if (entry.end - entry.begin != bits / 8) {
    return corrupt(label + ": found " + std::to_string(entry.end - entry.begin) +
                   " bytes; accepted: " + std::to_string(bits / 8) +
                   ", as its shape and dtype say");
  }
  entry.begin += data_begin;
  entry.end += data_begin;
  return Status();
}

}  // namespace

Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::span<const std::byte> prefix,
                                                               uint64_t file_bytes) {
  if (prefix.size() < kLengthBytes || file_bytes < kLengthBytes) {
    return corrupt("truncated: found " +
                   std::to_string(std::min<uint64_t>(prefix.size(), file_bytes)) +
                   " bytes; accepted: at least the 8 of the header's length");
  }
  uint64_t header_bytes = 0;
  for (size_t index = 0; index < kLengthBytes; ++index) {
    header_bytes |= static_cast<uint64_t>(prefix[index]) << (8 * index);
  }
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    return corrupt("found a header of " + std::to_string(header_bytes) +
                   " bytes; accepted: at most " + std::to_string(kMaxSafetensorsHeaderBytes) +
                   " (not a safetensors file?)");
  }
  if (header_bytes > std::min<uint64_t>(prefix.size(), file_bytes) - kLengthBytes) {
    return corrupt("truncated: found " + std::to_string(file_bytes) +
                   " bytes; accepted: at least " + std::to_string(header_bytes + kLengthBytes) +
                   " for the header");
  }
  const auto* text = reinterpret_cast<const char*>(prefix.data()) + kLengthBytes;
  HeaderHandler handler;
  if (header_bytes == 0 || text[0] != '{' ||
      !nlohmann::json::sax_parse(text, text + header_bytes, &handler)) {
    return corrupt(handler.error().empty() ? "header does not begin with \"{\"" : handler.error());
  }

  auto entries = std::move(handler.entries());
  const uint64_t data_begin = kLengthBytes + header_bytes;
  for (SafetensorsEntry& entry : entries) {
    FORERUN_RETURN_IF_ERROR(check_entry(entry, data_begin, file_bytes - data_begin));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& left, const auto& right) {
    return std::tie(left.begin, left.end) < std::tie(right.begin, right.end);
  });
  uint64_t expected = data_begin;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != expected) {
      return corrupt(tensor_label(entry.name) + ": found at byte " + std::to_string(entry.begin) +
                     "; accepted: byte " + std::to_string(expected) +
                     ", where the tensor before it ends");
    }
    expected = entry.end;
  }
  if (expected != file_bytes) {
    return corrupt("found " + std::to_string(file_bytes) + " bytes; accepted: " +
                   std::to_string(expected) + ", where the last tensor ends");
  }
  return entries;
}

}  // namespace forerun
