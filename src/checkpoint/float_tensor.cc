#include "checkpoint/float_tensor.h"

#include <cstring>

#include "base/dtype.h"

namespace forerun {
namespace {

template <class T>
T load_element(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));  // safetensors aligns nothing
  return value;
}

}  // namespace

Result<const RawTensor*> require_tensor(const Checkpoint& checkpoint, const std::string& name) {
  const RawTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) {
    return Status(StatusCode::kNotFound,
                  checkpoint.dir().string() + ": tensor " + name + " is missing");
  }
  return tensor;
}

Status check_float(const RawTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kF32:
    case DType::kBf16:
    case DType::kF16:
      return {};
    default:
      return Status(StatusCode::kUnsupported, "tensor " + std::string(tensor.name) + ": dtype " +
                                                  std::string(dtype_name(tensor.dtype)) +
                                                  "; accepted: f32, bf16 and f16");
  }
}

void widen(const RawTensor& tensor, int64_t first, int64_t count, float* to) {
  if (count == 0) return;
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

}  // namespace forerun
