#include "kernels/linear/linear_weight.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace forerun {
namespace {

constexpr int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

template <class T>
std::shared_ptr<LinearWeight::Storage> view_storage(MatrixView<const T> w) {
  auto storage = std::make_shared<LinearWeight::Storage>();
  storage->data = reinterpret_cast<const std::byte*>(w.data());
  storage->row_bytes = w.outer_stride() * static_cast<int64_t>(sizeof(T));
  return storage;
}

// Nibble i of an AutoAWQ word is this column of its 8 columns.
constexpr int kAwqColumn[8] = {0, 2, 4, 6, 1, 3, 5, 7};

// Unpacks the 8 values of an AutoAWQ word in the order of columns.
void unpack_awq(int32_t word, uint8_t (&values)[8]) {
  const uint32_t bits = static_cast<uint32_t>(word);
  for (int nibble = 0; nibble < 8; ++nibble) {
    values[kAwqColumn[nibble]] = static_cast<uint8_t>((bits >> (4 * nibble)) & 15u);
  }
}

// A scale rounded to nearest, so that its low bits can hold a zero point.
uint32_t scale_word(float scale, uint8_t zero) {
  uint32_t bits = std::bit_cast<uint32_t>(scale);
  if (std::isfinite(scale)) bits = (bits + 8u) & ~kZeroPointMask;
  return (bits & ~kZeroPointMask) | zero;
}

uint32_t load_word(const std::byte* from) {
  uint32_t word = 0;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

int64_t int4_chunk_bytes(int64_t chunk) { return kVectorBytes + chunk / 8 * kVectorBytes; }

float int4_value(const LinearWeight::Storage& storage, int64_t out, int64_t in) {
  const int64_t lane = out % kBlockOuts * 4;
  const int64_t offset = in % storage.chunk;
  const std::byte* chunk = storage.data + out / kBlockOuts * storage.block_bytes +
                           in / storage.chunk * int4_chunk_bytes(storage.chunk);
  const uint32_t word = load_word(chunk + lane);
  const std::byte* vector = chunk + kVectorBytes + offset / 8 * kVectorBytes;
  const uint32_t byte = static_cast<uint32_t>(vector[lane + offset % 4]);
  const uint32_t q = offset % 8 < 4 ? byte & 15u : byte >> 4;
  const float scale = std::bit_cast<float>(word & ~kZeroPointMask);
  return static_cast<float>(static_cast<int32_t>(q) - static_cast<int32_t>(word & kZeroPointMask)) *
         scale;
}

float int8_value(const LinearWeight::Storage& storage, int64_t out, int64_t in) {
  const int64_t lane = out % kBlockOuts * 4;
  const std::byte* block = storage.data + out / kBlockOuts * storage.block_bytes;
  const float scale = std::bit_cast<float>(load_word(block + lane));
  const std::byte byte = block[kVectorBytes + in / 4 * kVectorBytes + lane + in % 4];
  return static_cast<float>(static_cast<int32_t>(byte) - 128) * scale;
}

float pair_value(const LinearWeight::Storage& storage, int64_t out, int64_t in) {
  const std::byte* pair = storage.data + out / kBlockOuts * storage.block_bytes +
                          in / 2 * kVectorBytes + out % kBlockOuts * 4;
  bf16 value;
  std::memcpy(&value, pair + in % 2 * 2, sizeof(value));
  return to_float(value);
}

// Allocates zeroed memory for the blocks of `out` channels; storage.block_bytes must be set.
// Returns the beginning of the memory, and its size in `bytes`.
std::byte* allocate_blocks(LinearWeight::Storage& storage, int64_t out, size_t& bytes) {
  bytes = static_cast<size_t>(round_up(out, kBlockOuts) / kBlockOuts * storage.block_bytes);
  storage.owner = allocate_weights(bytes);
  auto* const data = static_cast<std::byte*>(storage.owner.get());
  storage.data = data;
  return data;
}

template <class T>
T load_element(const LinearWeight::Storage& storage, int64_t out, int64_t in) {
  T value;
  std::memcpy(&value, storage.data + out * storage.row_bytes + in * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

}  // namespace

const char* weight_format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBf16:
      return "bf16";
    case WeightFormat::kF16:
      return "f16";
    case WeightFormat::kInt8:
      return "int8";
    case WeightFormat::kInt4:
      return "int4";
    case WeightFormat::kBf16Pairs:
      return "bf16_pairs";
  }
  return "?";
}

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

LinearWeight LinearWeight::pair_bf16(MatrixView<const bf16> w) {
  LinearWeight weight;
  weight.out_ = w.dim(0);
  weight.in_ = w.dim(1);
  weight.format_ = WeightFormat::kBf16Pairs;
  auto storage = std::make_shared<Storage>();
  storage->padded_in = round_up(weight.in_, kInputPad);
  storage->block_bytes = storage->padded_in / 2 * kVectorBytes;
  std::byte* const data = allocate_blocks(*storage, weight.out_, weight.bytes_);
  constexpr int64_t kPairs = kInputPad / 2;
  for (int64_t first = 0; first < weight.out_; first += kBlockOuts) {
    const int64_t channels = std::min(kBlockOuts, weight.out_ - first);
    std::byte* vectors = data + first / kBlockOuts * storage->block_bytes;
    // One cache line of every channel at a time.
    for (int64_t in = 0; in < weight.in_; in += kInputPad, vectors += kPairs * kVectorBytes) {
      uint32_t pairs[kBlockOuts][kPairs] = {};
      const auto bytes = static_cast<size_t>(std::min(kInputPad, weight.in_ - in)) * sizeof(bf16);
      for (int64_t channel = 0; channel < channels; ++channel) {
        std::memcpy(pairs[channel], w.row(first + channel) + in, bytes);
      }
      for (int64_t pair = 0; pair < kPairs; ++pair) {
        uint32_t lanes[kBlockOuts];
        for (int64_t channel = 0; channel < kBlockOuts; ++channel) {
          lanes[channel] = pairs[channel][pair];
        }
        std::memcpy(vectors + pair * kVectorBytes, lanes, sizeof(lanes));
      }
    }
  }
  weight.storage_ = std::move(storage);
  return weight;
}

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
  storage->block_bytes = kVectorBytes + storage->padded_in / 4 * kVectorBytes;
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

LinearWeight LinearWeight::from_awq(MatrixView<const int32_t> qweight,
                                    MatrixView<const int32_t> qzeros,
                                    MatrixView<const float> scales, int64_t group) {
  LinearWeight weight;
  weight.in_ = qweight.dim(0);
  weight.out_ = qweight.dim(1) * 8;
  weight.format_ = WeightFormat::kInt4;
  assert(group % 32 == 0 && weight.in_ % group == 0);
  assert(scales.dim(0) == weight.in_ / group && scales.dim(1) == weight.out_);
  assert(qzeros.dim(0) == weight.in_ / group && qzeros.dim(1) == qweight.dim(1));
  auto storage = std::make_shared<Storage>();
  storage->padded_in = weight.in_;
  storage->chunk = std::gcd(group, kInputGroup);
  const int64_t chunk_bytes = int4_chunk_bytes(storage->chunk);
  storage->block_bytes = weight.in_ / storage->chunk * chunk_bytes;
  std::byte* const data = allocate_blocks(*storage, weight.out_, weight.bytes_);
  uint8_t values[8];
  for (int64_t in = 0; in < weight.in_; ++in) {
    const int64_t chunk_idx = in / storage->chunk;
    const int64_t offset = in % storage->chunk;
    for (int64_t word_idx = 0; word_idx < qweight.dim(1); ++word_idx) {
      const int64_t out = word_idx * 8;
      std::byte* chunk = data + out / kBlockOuts * storage->block_bytes + chunk_idx * chunk_bytes;
      std::byte* lanes = chunk + out % kBlockOuts * 4;
      if (offset == 0) {
        unpack_awq(qzeros.row(in / group)[word_idx], values);
        for (int64_t column = 0; column < 8; ++column) {
          const uint32_t word = scale_word(scales.row(in / group)[out + column], values[column]);
          std::memcpy(lanes + column * 4, &word, sizeof(word));
        }
      }
      unpack_awq(qweight.row(in)[word_idx], values);
      std::byte* bytes = lanes + kVectorBytes + offset / 8 * kVectorBytes + offset % 4;
      const int shift = offset % 8 < 4 ? 0 : 4;
      for (int64_t column = 0; column < 8; ++column) {
        bytes[column * 4] |= static_cast<std::byte>(values[column] << shift);
      }
    }
  }
  weight.storage_ = std::move(storage);
  return weight;
}

void LinearWeight::dequantize(int64_t first, MatrixView<float> w) const {
  assert(first >= 0 && first + w.dim(0) <= out_ && w.dim(1) == in_);
  const Storage& stored = *storage_;
  for (int64_t row_idx = 0; row_idx < w.dim(0); ++row_idx) {
    float* row = w.row(row_idx);
    const int64_t out = first + row_idx;
    for (int64_t in = 0; in < in_; ++in) {
      switch (format_) {
        case WeightFormat::kF32:
          row[in] = load_element<float>(stored, out, in);
          break;
        case WeightFormat::kBf16:
          row[in] = to_float(load_element<bf16>(stored, out, in));
          break;
        case WeightFormat::kF16:
          row[in] = to_float(load_element<f16>(stored, out, in));
          break;
        case WeightFormat::kInt8:
          row[in] = int8_value(stored, out, in);
          break;
        case WeightFormat::kInt4:
          row[in] = int4_value(stored, out, in);
          break;
        case WeightFormat::kBf16Pairs:
          row[in] = pair_value(stored, out, in);
          break;
      }
    }
  }
}

}  // namespace forerun
