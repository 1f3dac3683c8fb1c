// Makes weights that stay in the caller's memory: f32, bf16 and f16, [out][in].
#include <cstring>

#include "kernels/linear/formats/weight_formats.h"

namespace forerun {
namespace {

template <class T>
std::shared_ptr<LinearWeight::Storage> view_storage(MatrixView<const T> w) {
  auto storage = std::make_shared<LinearWeight::Storage>();
  storage->data = reinterpret_cast<const std::byte*>(w.data());
  storage->row_bytes = w.outer_stride() * static_cast<int64_t>(sizeof(T));
  return storage;
}

template <class T>
void widen_row(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row) {
  const std::byte* from = storage.data + out * storage.row_bytes;
  for (int64_t idx = 0; idx < in; ++idx, from += sizeof(T)) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    row[idx] = static_cast<float>(to_float(value));
  }
}

}  // namespace

template <class T>
LinearWeight LinearWeight::view_as(WeightFormat format, MatrixView<const T> w) {
  LinearWeight weight;
  weight.out_ = w.dim(0);
  weight.in_ = w.dim(1);
  weight.format_ = format;
  weight.bytes_ = static_cast<size_t>(w.size()) * sizeof(T);
  weight.storage_ = view_storage(w);
  return weight;
}

LinearWeight LinearWeight::view(MatrixView<const float> w) {
  return view_as(WeightFormat::kF32, w);
}
LinearWeight LinearWeight::view(MatrixView<const bf16> w) {
  return view_as(WeightFormat::kBf16, w);
}
LinearWeight LinearWeight::view(MatrixView<const f16> w) { return view_as(WeightFormat::kF16, w); }

void dequantize_f32(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row) {
  std::memcpy(row, storage.data + out * storage.row_bytes, static_cast<size_t>(in) * sizeof(float));
}
void dequantize_bf16(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row) {
  widen_row<bf16>(storage, out, in, row);
}
void dequantize_f16(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row) {
  widen_row<f16>(storage, out, in, row);
}

}  // namespace forerun
