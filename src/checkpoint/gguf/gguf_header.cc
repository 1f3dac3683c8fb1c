#include "checkpoint/gguf/gguf_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/gguf/ggml_types.h"

namespace forerun {
namespace {

constexpr uint64_t kMinValueBytes = 8 + 4 + 1;       // an empty key, a type, one byte
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;  // an empty name, no extents, type, offset
constexpr uint64_t kMinArrayBytes = 4 + 8;           // type and number of elements
constexpr uint64_t kMinStringBytes = 8;              // the length
constexpr uint32_t kMaxGgufRank = 4;
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMinAlignment = 8;  // alignment of the largest element
// A wrong count must not reserve more than this many elements in advance.
constexpr uint64_t kMaxReserved = uint64_t{1} << 20;

static_assert(std::endian::native == std::endian::little, "the header is read as it lies");

Status corrupt_header(std::string message) {
  return Status(StatusCode::kCorrupt, std::move(message));
}

std::string label_of(std::string_view name) { return "tensor " + in_quotes(name) + ": "; }

// Returns advice for llama.cpp's files from before GGUF, which begin with the letters of their
// format's name in reverse.
const char* way_out_for_magic(std::string_view magic) {
  if (magic == "lmgg" || magic == "fmgg" || magic == "tjgg") {
    return " (the format before GGUF: take the model's GGUF file, or convert with llama.cpp's "
           "convert_llama_ggml_to_gguf.py)";
  }
  return " (not a GGUF file?)";
}

class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> file, uint64_t file_bytes)
      : file_bytes_(file_bytes),
        bytes_(file.first(static_cast<size_t>(
            std::min({uint64_t{file.size()}, file_bytes, kMaxGgufHeaderBytes})))) {}

  Result<GgufHeader> parse() {
    FORERUN_RETURN_IF_ERROR(read_start());
    FORERUN_RETURN_IF_ERROR(read_metadata());
    FORERUN_RETURN_IF_ERROR(find_alignment());
    FORERUN_RETURN_IF_ERROR(read_tensors());
    FORERUN_RETURN_IF_ERROR(check_names());
    FORERUN_RETURN_IF_ERROR(place_tensors());
    return std::move(header_);
  }

 private:
  uint64_t left() const { return bytes_.size() - position_; }
  const std::byte* here() const { return bytes_.data() + position_; }

  // The next three functions advance past what they read, or return false and keep the required
  // bytes for truncated().
  bool skip(uint64_t count) {
    needed_ = count;
    if (count > left()) return false;
    position_ += static_cast<size_t>(count);
    return true;
  }
  template <class T>
  bool read(T* to) {
    const std::byte* const from = here();
    if (!skip(sizeof(T))) return false;
    std::memcpy(to, from, sizeof(T));
    return true;
  }
  bool read_string(std::string_view* to) {
    uint64_t length = 0;
    if (!read(&length)) return false;
    const std::byte* const from = here();
    if (!skip(length)) return false;
    *to = {reinterpret_cast<const char*>(from), static_cast<size_t>(length)};
    return true;
  }

  std::string limit() const {
    return bytes_.size() == kMaxGgufHeaderBytes
               ? " (a header may have " + std::to_string(kMaxGgufHeaderBytes) + " bytes)"
               : " (is the file truncated?)";
  }
  Status truncated(const std::string& label) const {
    return corrupt_header(label + "found " + std::to_string(left()) + " bytes at byte " +
                          std::to_string(position_) + "; accepted: at least " +
                          std::to_string(needed_) + limit());
  }
  // Checks that `count` things of at least `bytes` bytes each fit into the remaining bytes.
  Status check_count(const std::string& label, std::string_view things, uint64_t count,
                     uint64_t bytes) const {
    if (count <= left() / bytes) return Status();
    return corrupt_header(label + "found " + std::to_string(count) + " " + std::string(things) +
                          "; accepted: at most " + std::to_string(left() / bytes) + ", for which " +
                          std::to_string(left()) + " bytes are left" + limit());
  }

  Status read_start();
  Status read_metadata();
  Status read_value(const std::string& label, GgufValue* value);
  Status read_array(const std::string& label, int depth, GgufValue* value);
  Status check_bools(const std::string& label, std::span<const std::byte> bytes) const;
  Status find_alignment();
  Status read_tensors();
  Status check_names() const;
  Result<uint64_t> size_of(const GgufTensor& tensor) const;
  Status place_tensors();

  uint64_t file_bytes_;
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  uint64_t needed_ = 0;
  uint64_t num_tensors_ = 0;
  uint64_t num_values_ = 0;
  GgufHeader header_;
};

Status HeaderParser::read_start() {
  const std::string label = "start of the file: ";
  const std::byte* const from = here();
  if (!skip(kGgufMagic.size())) return truncated(label);
  const std::string_view magic(reinterpret_cast<const char*>(from), kGgufMagic.size());
  if (magic != kGgufMagic) {
    return corrupt_header("magic: found " + in_quotes(magic) + "; accepted: \"GGUF\"" +
                          way_out_for_magic(magic));
  }
  if (!read(&header_.version)) return truncated(label);
  const uint32_t version = header_.version;
  if (version != 0 && (version & 0xffff) == 0) {
    return Status(StatusCode::kUnsupported,
                  "byte order: found a big-endian file; accepted: little-endian; convert with "
                  "llama.cpp's gguf_convert_endian.py FILE little");
  }
  if (version != 2 && version != 3) {
    return Status(StatusCode::kUnsupported,
                  "version: found " + std::to_string(version) + "; accepted: 2 and 3; " +
                      (version < 2 ? "take a later file of the model, or convert it again"
                                   : "a newer Forerun may read it"));
  }
  if (!read(&num_tensors_) || !read(&num_values_)) return truncated(label);
  FORERUN_RETURN_IF_ERROR(check_count("header: ", "metadata values", num_values_, kMinValueBytes));
  return check_count("header: ", "tensors", num_tensors_, kMinTensorBytes);
}

Status HeaderParser::read_metadata() {
  std::vector<GgufValue> values;
  for (uint64_t idx = 0; idx < num_values_; ++idx) {
    GgufValue value;
    uint32_t type = 0;
    if (!read_string(&value.key)) {
      return truncated("metadata value " + std::to_string(idx + 1) + " of " +
                       std::to_string(num_values_) + ": ");
    }
    const std::string label = "metadata key " + in_quotes(value.key) + ": ";
    if (!read(&type)) return truncated(label);
    if (type >= kNumGgufTypes) {
      return corrupt_header(label + "found a value of type " + std::to_string(type) +
                            "; accepted: types 0 to " + std::to_string(kNumGgufTypes - 1));
    }
    value.type = static_cast<GgufType>(type);
    FORERUN_RETURN_IF_ERROR(read_value(label, &value));
    values.push_back(std::move(value));
  }
  FORERUN_ASSIGN_OR_RETURN(header_.metadata, GgufMetadata::make(std::move(values)));
  return Status();
}

Status HeaderParser::read_value(const std::string& label, GgufValue* value) {
  if (value->type == GgufType::kArray) return read_array(label, 1, value);
  if (value->type == GgufType::kString) {
    std::string_view text;
    if (!read_string(&text)) return truncated(label);
    value->bytes = std::as_bytes(std::span(text));
    return Status();
  }
  const size_t bytes = gguf_type_bytes(value->type);
  value->bytes = {here(), bytes};
  if (!skip(bytes)) return truncated(label);
  return value->type == GgufType::kBool ? check_bools(label, value->bytes) : Status();
}

Status HeaderParser::read_array(const std::string& label, int depth, GgufValue* value) {
  if (depth > kMaxGgufArrayDepth) {
    return corrupt_header(label + "found arrays within arrays, more than " +
                          std::to_string(kMaxGgufArrayDepth) + " deep; accepted: at most " +
                          std::to_string(kMaxGgufArrayDepth));
  }
  uint32_t type = 0;
  if (!read(&type) || !read(&value->count)) return truncated(label);
  if (type >= kNumGgufTypes) {
    return corrupt_header(label + "found an array of values of type " + std::to_string(type) +
                          "; accepted: types 0 to " + std::to_string(kNumGgufTypes - 1));
  }
  value->element_type = static_cast<GgufType>(type);
  const size_t fixed = gguf_type_bytes(value->element_type);
  const bool of_strings = value->element_type == GgufType::kString;
  FORERUN_RETURN_IF_ERROR(check_count(label, "array elements", value->count,
                                      fixed != 0   ? fixed
                                      : of_strings ? kMinStringBytes
                                                   : kMinArrayBytes));
  const size_t begin = position_;
  if (fixed != 0) {
    if (!skip(value->count * fixed)) return truncated(label);
  } else if (of_strings) {
    // Elements of nested arrays are not kept, because no caller reads them.
    if (depth == 1) value->strings.reserve(std::min(value->count, kMaxReserved));
    for (uint64_t idx = 0; idx < value->count; ++idx) {
      std::string_view text;
      if (!read_string(&text)) return truncated(label + "element " + std::to_string(idx) + ": ");
      if (depth == 1) value->strings.push_back(text);
    }
  } else {
    for (uint64_t idx = 0; idx < value->count; ++idx) {
      GgufValue element;
      FORERUN_RETURN_IF_ERROR(read_array(label, depth + 1, &element));
    }
  }
  value->bytes = bytes_.subspan(begin, position_ - begin);
  return value->element_type == GgufType::kBool ? check_bools(label, value->bytes) : Status();
}

Status HeaderParser::check_bools(const std::string& label, std::span<const std::byte> bytes) const {
  for (const std::byte byte : bytes) {
    if (byte <= std::byte{1}) continue;
    return corrupt_header(label + "found a boolean of " + std::to_string(static_cast<int>(byte)) +
                          "; accepted: 0 or 1");
  }
  return Status();
}

Status HeaderParser::find_alignment() {
  constexpr std::string_view kKey = "general.alignment";
  GgufMetadataReader reader(header_.metadata);
  header_.alignment =
      static_cast<uint32_t>(reader.integer(kKey, 0, UINT32_MAX).value_or(kDefaultAlignment));
  if (!std::has_single_bit(header_.alignment) || header_.alignment < kMinAlignment) {
    reader.refuse(kKey, "a power of two of at least " + std::to_string(kMinAlignment));
  }
  return reader.ok() ? Status() : corrupt_header(reader.status().message());
}

Status HeaderParser::read_tensors() {
  for (uint64_t idx = 0; idx < num_tensors_; ++idx) {
    GgufTensor tensor;
    uint32_t rank = 0;
    if (!read_string(&tensor.name)) {
      return truncated("tensor " + std::to_string(idx + 1) + " of " + std::to_string(num_tensors_) +
                       ": ");
    }
    const std::string label = label_of(tensor.name);
    if (!read(&rank)) return truncated(label);
    if (rank > kMaxGgufRank) {
      return corrupt_header(label + "found " + std::to_string(rank) +
                            " dimensions; accepted: up to " + std::to_string(kMaxGgufRank));
    }
    tensor.shape.resize(rank);
    for (uint32_t dim = rank; dim-- > 0;) {
      uint64_t extent = 0;
      if (!read(&extent)) return truncated(label);
      if (extent > static_cast<uint64_t>(INT64_MAX)) {
        return corrupt_header(label + "found an extent of " + std::to_string(extent) +
                              "; accepted: at most 2^63 - 1");
      }
      tensor.shape[dim] = static_cast<int64_t>(extent);
    }
    // `begin` counts from the start of the data until place_tensors().
    if (!read(&tensor.ggml_type) || !read(&tensor.begin)) return truncated(label);
    header_.tensors.push_back(std::move(tensor));
  }
  return Status();
}

Status HeaderParser::check_names() const {
  std::vector<std::string_view> names;
  names.reserve(header_.tensors.size());
  for (const GgufTensor& tensor : header_.tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return Status();
  return corrupt_header(label_of(*twice) + "found twice; accepted: every name once");
}

// Returns the bytes of a tensor, or 0 if the type's size is not known.
Result<uint64_t> HeaderParser::size_of(const GgufTensor& tensor) const {
  const std::optional<GgmlLayout> layout = ggml_layout(tensor.ggml_type);
  if (!layout) return uint64_t{0};
  const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % layout->weights != 0) {
    return corrupt_header(label_of(tensor.name) + "found rows of " + std::to_string(row) +
                          " weights; accepted: a multiple of " + std::to_string(layout->weights) +
                          ", the block of " + ggml_type_name(tensor.ggml_type));
  }
  // An extent of 0 must not hide that the others are too large, since callers multiply in other
  // orders.
  bool is_empty = false;
  int64_t weights = 1;
  int64_t bytes = 0;
  bool overflows = false;
  for (const int64_t extent : tensor.shape) {
    is_empty |= extent == 0;
    overflows |= __builtin_mul_overflow(weights, std::max<int64_t>(extent, 1), &weights);
  }
  overflows |= __builtin_mul_overflow(weights / layout->weights, layout->bytes, &bytes);
  if (overflows) {
    return corrupt_header(
        label_of(tensor.name) +
        "found a shape of 2^63 weights or bytes or more; accepted: one that fits into "
        "the file");
  }
  return is_empty ? uint64_t{0} : static_cast<uint64_t>(bytes);
}

Status HeaderParser::place_tensors() {
  const uint64_t mask = header_.alignment - 1;
  const uint64_t data_begin = (uint64_t{position_} + mask) & ~mask;
  const uint64_t data_bytes = file_bytes_ < data_begin ? 0 : file_bytes_ - data_begin;
  for (GgufTensor& tensor : header_.tensors) {
    const uint64_t offset = tensor.begin;
    if ((offset & mask) != 0) {
      return corrupt_header(label_of(tensor.name) + "found at byte " + std::to_string(offset) +
                            " of the data; accepted: a multiple of " +
                            std::to_string(header_.alignment));
    }
    FORERUN_ASSIGN_OR_RETURN(const uint64_t bytes, size_of(tensor));
    if (offset > data_bytes || bytes > data_bytes - offset || file_bytes_ < data_begin) {
      return corrupt_header(
          label_of(tensor.name) + "found " + std::to_string(bytes) + " bytes at byte " +
          std::to_string(offset) + " of the data; accepted: within " + "the " +
          std::to_string(data_bytes) + " bytes of data in the file (is it truncated?)");
    }
    tensor.begin = data_begin + offset;
    tensor.end = tensor.begin + bytes;
  }
  std::stable_sort(header_.tensors.begin(), header_.tensors.end(),
                   [](const GgufTensor& left, const GgufTensor& right) {
                     return std::tie(left.begin, left.end) < std::tie(right.begin, right.end);
                   });
  for (size_t idx = 1; idx < header_.tensors.size(); ++idx) {
    const GgufTensor& before = header_.tensors[idx - 1];
    const GgufTensor& tensor = header_.tensors[idx];
    if (tensor.begin >= before.end) continue;
    return corrupt_header(label_of(tensor.name) + "found at byte " + std::to_string(tensor.begin) +
                          "; accepted: byte " + std::to_string(before.end) +
                          " or later, where tensor " + in_quotes(before.name) + " ends");
  }
  return Status();
}

}  // namespace

Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, uint64_t file_bytes) {
  return HeaderParser(file, file_bytes).parse();
}

}  // namespace forerun
