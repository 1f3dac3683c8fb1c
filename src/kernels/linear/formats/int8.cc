// int8 with one scale per output channel, or with a scale and a zero point per group of inputs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/linear/formats/weight_formats.h"

namespace forerun {
namespace {

// Writes output channel `out` of an int8 weight.
void quantize_channel(const float* row, int64_t in_features, int64_t out,
                      const LinearWeight::Storage& storage, std::byte* data) {
  float largest = 0.0f;
  bool finite = true;
  for (int64_t in = 0; in < in_features; ++in) {
    largest = std::max(largest, std::fabs(row[in]));
    finite = finite && std::isfinite(row[in]);
  }
  // A channel with a NaN or an infinity yields NaN.
  const float scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
  const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  std::byte* block = data + out / kBlockOuts * storage.block_bytes;
  const int64_t lane = out % kBlockOuts * 4;
  std::memcpy(block + lane, &scale, sizeof(scale));
  for (int64_t in = 0; in < in_features; ++in) {
    const float q = finite ? std::clamp(std::nearbyint(row[in] * inverse), -127.0f, 127.0f) : 0.0f;
    block[kVectorBytes + in / 4 * kVectorBytes + lane + in % 4] =
        static_cast<std::byte>(static_cast<int32_t>(q) + 128);
  }
}

}  // namespace

LinearWeight LinearWeight::quantize_int8(MatrixView<const float> w) {
  return quantize_int8(w.dim(0), w.dim(1), [&w](int64_t first, MatrixView<float> rows) {
    for (int64_t row = 0; row < rows.dim(0); ++row) {
      std::copy(w.row(first + row), w.row(first + row) + w.dim(1), rows.row(row));
    }
  });
}

LinearWeight LinearWeight::quantize_int8(
    int64_t out, int64_t in,
    const std::function<void(int64_t first, MatrixView<float> rows)>& fill) {
  LinearWeight weight;
  weight.out_ = out;
  weight.in_ = in;
  weight.format_ = WeightFormat::kInt8;
  auto storage = std::make_shared<Storage>();
  storage->padded_in = round_up(weight.in_, kInputPad);
  storage->chunk = kInputGroup;
  storage->block_bytes = block_bytes(weight.format_, weight.in_);
  std::byte* const data = allocate_blocks(*storage, weight.out_, weight.bytes_);
  constexpr int64_t kPortion = 64;  // channels filled at a time
  std::vector<float> values(static_cast<size_t>(std::min(kPortion, out) * in));
  for (int64_t first = 0; first < out; first += kPortion) {
    const MatrixView<float> rows(values.data(), {std::min(kPortion, out - first), in});
    fill(first, rows);
    for (int64_t row = 0; row < rows.dim(0); ++row) {
      quantize_channel(rows.row(row), in, first + row, *storage, data);
    }
  }
  weight.storage_ = std::move(storage);
  return weight;
}

void dequantize_int8(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row) {
  const int64_t lane = out % kBlockOuts * 4;
  const std::byte* block = storage.data + out / kBlockOuts * storage.block_bytes;
  const float scale = std::bit_cast<float>(load_word(block + lane));
  for (int64_t idx = 0; idx < in; ++idx) {
    const std::byte byte = block[kVectorBytes + idx / 4 * kVectorBytes + lane + idx % 4];
    row[idx] = static_cast<float>(static_cast<int32_t>(byte) - 128) * scale;
  }
}

void dequantize_int8_groups(const LinearWeight::Storage& storage, int64_t out, int64_t in,
                            float* row) {
  const int64_t lane = out % kBlockOuts * 4;
  const int64_t chunk_bytes = kVectorBytes + storage.chunk / 4 * kVectorBytes;
  const std::byte* block = storage.data + out / kBlockOuts * storage.block_bytes;
  for (int64_t idx = 0; idx < in; ++idx) {
    const std::byte* chunk = block + idx / storage.chunk * chunk_bytes;
    const uint32_t word = load_word(chunk + lane);
    const int64_t offset = idx % storage.chunk;
    const std::byte byte = chunk[kVectorBytes + offset / 4 * kVectorBytes + lane + offset % 4];
    const int32_t zero = static_cast<int32_t>(word & kWideZeroMask);
    row[idx] = static_cast<float>(static_cast<int32_t>(byte) - zero) *
               std::bit_cast<float>(word & ~kWideZeroMask);
  }
}

}  // namespace forerun
