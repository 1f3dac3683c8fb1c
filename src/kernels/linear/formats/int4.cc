// int4: a zero point and a scale per group of inputs, and AWQ's packing of it.
#include <bit>
#include <cassert>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/linear/formats/weight_formats.h"

namespace forerun {
namespace {

// Nibble i of an AutoAWQ word is this column of its 8 columns.
constexpr int kAwqColumn[8] = {0, 2, 4, 6, 1, 3, 5, 7};

// Unpacks the 8 values of an AutoAWQ word in the order of columns.
void unpack_awq(int32_t word, uint8_t (&values)[8]) {
  const uint32_t bits = static_cast<uint32_t>(word);
  for (int nibble = 0; nibble < 8; ++nibble) {
    values[kAwqColumn[nibble]] = static_cast<uint8_t>((bits >> (4 * nibble)) & 15u);
  }
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

}  // namespace

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
  storage->block_bytes = block_bytes(weight.format_, weight.in_, storage->chunk);
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
          const uint32_t word =
              scale_word(scales.row(in / group)[out + column], values[column], kZeroPointMask);
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

void dequantize_int4(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row) {
  for (int64_t idx = 0; idx < in; ++idx) row[idx] = int4_value(storage, out, idx);
}

}  // namespace forerun
