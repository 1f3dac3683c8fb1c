// Copies bf16 weights in pairs of inputs of a channel (linear_weight.h).
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/linear/formats/weight_formats.h"

namespace forerun {

LinearWeight LinearWeight::pair_bf16(MatrixView<const bf16> w) {
  LinearWeight weight;
  weight.out_ = w.dim(0);
  weight.in_ = w.dim(1);
  weight.format_ = WeightFormat::kBf16Pairs;
  auto storage = std::make_shared<Storage>();
  storage->padded_in = round_up(weight.in_, kInputPad);
  storage->block_bytes = block_bytes(weight.format_, weight.in_);
  std::byte* const data = allocate_blocks(*storage, weight.out_, weight.bytes_);
  constexpr int64_t kPairs = kInputPad / 2;
  for (int64_t first = 0; first < weight.out_; first += kBlockOuts) {
    const int64_t channels = std::min(kBlockOuts, weight.out_ - first);
    std::byte* vectors = data + first / kBlockOuts * storage->block_bytes;
    // Takes one cache line of every channel at a time.
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

void dequantize_bf16_pairs(const LinearWeight::Storage& storage, int64_t out, int64_t in,
                           float* row) {
  const std::byte* lane =
      storage.data + out / kBlockOuts * storage.block_bytes + out % kBlockOuts * 4;
  for (int64_t idx = 0; idx < in; ++idx) {
    bf16 value;
    std::memcpy(&value, lane + idx / 2 * kVectorBytes + idx % 2 * 2, sizeof(value));
    row[idx] = to_float(value);
  }
}

}  // namespace forerun
