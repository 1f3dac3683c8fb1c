#include "checkpoint/float_tensor.h"

#include <algorithm>
#include <cstring>

#include "base/dtype.h"
#include "checkpoint/layouts/weight_parts.h"

namespace forerun {
namespace {

template <class T>
T load_element(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));  // safetensors does not align tensors
  return value;
}

Result<const RawTensor*> require(const Checkpoint& checkpoint, const RawTensor* tensor,
                                 const std::string& name) {
  if (tensor != nullptr) return tensor;
  return Status(StatusCode::kNotFound,
                checkpoint.path().string() + ": tensor " + name + " is missing");
}

// Decodes `count` elements of a row of blocks from element `first` on.
void decode_part(const BlockFormatInfo& format, const std::byte* row, int64_t first, int64_t count,
                 float* to) {
  constexpr int64_t kMaxBlockWeights = 256;
  const auto block_at = [&](int64_t element) {
    return row + element / format.weights * format.bytes;
  };
  float values[kMaxBlockWeights];
  while (count > 0) {
    const int64_t skipped = first % format.weights;
    const int64_t whole = skipped == 0 ? count / format.weights : 0;
    if (whole > 0) {
      format.decode(block_at(first), whole, to);
      first += whole * format.weights, to += whole * format.weights,
          count -= whole * format.weights;
      continue;
    }
    const int64_t part = std::min(count, format.weights - skipped);
    format.decode(block_at(first), 1, values);
    std::copy_n(values + skipped, part, to);
    first += part, to += part, count -= part;
  }
}

// Widens `count` consecutive elements of the file.
void widen_run(const RawTensor& tensor, int64_t first, int64_t count, float* to) {
  const std::byte* from =
      tensor.bytes.data() + first * static_cast<int64_t>(dtype_bytes(tensor.dtype));
  if (tensor.dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  } else if (tensor.dtype == DType::kBf16) {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(load_element<bf16>(from + 2 * i));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(load_element<f16>(from + 2 * i));
  }
}

}  // namespace

Result<const RawTensor*> require_weight(const Checkpoint& checkpoint, ModuleId module) {
  return require(checkpoint, checkpoint.weight(module), weight_name(module));
}

Result<const RawTensor*> require_bias(const Checkpoint& checkpoint, ModuleId module) {
  return require(checkpoint, checkpoint.bias(module), bias_name(module));
}

Status check_readable(const RawTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kF32:
    case DType::kBf16:
    case DType::kF16:
    case DType::kBlocks:
    case DType::kParts:
      return {};
    default:
      return Status(StatusCode::kUnsupported,
                    "tensor " + std::string(tensor.name) + ": found dtype " +
                        std::string(dtype_name(tensor.dtype)) +
                        "; accepted: f32, bf16, f16, blocks and quantized layers");
  }
}

void widen(const RawTensor& tensor, int64_t first, int64_t count, float* to) {
  if (count == 0) return;
  if (tensor.is_plain()) return widen_run(tensor, first, count, to);
  if (tensor.shape.size() == 1) {
    for (int64_t i = 0; i < count; ++i) widen_run(tensor, tensor.stored_row(first + i), 1, to + i);
    return;
  }
  const int64_t width = tensor.shape[1];
  if (tensor.parts != nullptr) {
    return tensor.parts->widen(first / width, first % width, count, to);
  }
  const int64_t row = tensor.stored_row(first / width);
  if (tensor.blocks == nullptr) return widen_run(tensor, row * width + first % width, count, to);
  const int64_t row_bytes = width / tensor.blocks->weights * tensor.blocks->bytes;
  decode_part(*tensor.blocks, tensor.bytes.data() + row * row_bytes, first % width, count, to);
}

}  // namespace forerun
