// FP8: e4m3 codes in the caller's memory, and a scale per block of weights. e4m3 has 4 bits of
// exponent with a bias of 7 and 3 bits of mantissa, no infinities, and NaN as 0x7f and 0xff.
//
// A weight is float(code) * scale in f32, rounded. Kernels read a code as the f16 with its bits,
// which is 2^-8 times its number, so the scales are kept multiplied by 2^8.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/status_macros.h"
#include "kernels/linear/formats/weight_formats.h"

namespace forerun {
namespace {

constexpr float kCodeUnit = 0x1p8f;
// 448, the largest number of e4m3, times a larger scale would not be finite.
constexpr float kLargestScale = 0x1p119f;

// Returns whether one of `count` codes is NaN.
bool has_nan(const uint8_t* codes, int64_t count) {
  constexpr uint64_t kMagnitudes = 0x7f7f7f7f7f7f7f7fu;
  constexpr uint64_t kOnes = 0x0101010101010101u;
  uint64_t carries = 0;  // a magnitude of 0x7f plus 1 sets bit 7
  int64_t at = 0;
  for (; at + 8 <= count; at += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, codes + at, sizeof(eight));
    carries |= (eight & kMagnitudes) + kOnes;
  }
  for (; at < count; ++at) carries |= (codes[at] & 0x7fu) + 1u;
  return (carries & ~kMagnitudes) != 0;
}

// Returns the number of a code that is not NaN.
float code_value(uint8_t code) {
  const auto bits = static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7f) << 7);
  return to_float(std::bit_cast<f16>(bits)) * kCodeUnit;
}

// Returns how many blocks of `block` channels or inputs cover `size`; the last may extend beyond
// it.
int64_t block_count(int64_t size, int64_t block) { return size == 0 ? 0 : (size - 1) / block + 1; }

Status check_blocks(int64_t out, int64_t in, const Fp8Scales& scales) {
  const bool whole_steps = scales.block_in > 0 && scales.block_in % kInputPad == 0;
  if (scales.block_out < 1 || (!whole_steps && scales.block_in < std::max<int64_t>(in, 1))) {
    return {StatusCode::kUnsupported,
            "FP8 scales: found blocks of " + std::to_string(scales.block_out) + " channels x " +
                std::to_string(scales.block_in) +
                " inputs; accepted: any number of channels, all inputs or a multiple of 32"};
  }
  const int64_t rows = block_count(out, scales.block_out);
  const int64_t cols = block_count(in, scales.block_in);
  if (scales.values.dim(0) != rows || scales.values.dim(1) != cols) {
    return {StatusCode::kInvalidArgument,
            "FP8 scales: found shape [" + std::to_string(scales.values.dim(0)) + ", " +
                std::to_string(scales.values.dim(1)) + "]; accepted: [" + std::to_string(rows) +
                ", " + std::to_string(cols) + "]"};
  }
  return {};
}

}  // namespace

Result<LinearWeight> LinearWeight::view_fp8(MatrixView<const uint8_t> codes,
                                            const Fp8Scales& scales) {
  LinearWeight weight;
  weight.out_ = codes.dim(0);
  weight.in_ = codes.dim(1);
  weight.format_ = WeightFormat::kFp8;
  FORERUN_RETURN_IF_ERROR(check_blocks(weight.out_, weight.in_, scales));
  auto storage = std::make_shared<Storage>();
  storage->data = reinterpret_cast<const std::byte*>(codes.data());
  storage->row_bytes = codes.outer_stride();
  storage->scale_outs = scales.block_out;
  storage->scale_inputs =
      scales.block_in < weight.in_ ? scales.block_in : round_up(weight.in_ + 1, kInputPad);
  storage->scales_stride = scales.values.dim(1);
  for (int64_t row = 0; row < scales.values.dim(0); ++row) {
    for (int64_t col = 0; col < scales.values.dim(1); ++col) {
      const float scale = scales.values.row(row)[col];
      if (!(std::fabs(scale) <= kLargestScale)) {
        return Status(StatusCode::kCorrupt, "FP8 scales: found " + std::to_string(scale) +
                                                "; accepted: finite numbers up to 2^119");
      }
      storage->scales.push_back(scale * kCodeUnit);
    }
  }
  for (int64_t out = 0; out < weight.out_; ++out) {
    if (has_nan(codes.row(out), weight.in_)) {
      return Status(StatusCode::kCorrupt, "FP8 weights: found NaN in output channel " +
                                              std::to_string(out) + "; accepted: numbers");
    }
  }
  weight.bytes_ =
      static_cast<size_t>(codes.size()) + storage->scales.size() * sizeof(storage->scales[0]);
  weight.storage_ = std::move(storage);
  return weight;
}

void dequantize_fp8(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row) {
  const auto* codes = reinterpret_cast<const uint8_t*>(storage.data + out * storage.row_bytes);
  const int64_t scale_row = out / storage.scale_outs * storage.scales_stride;
  for (int64_t idx = 0; idx < in; ++idx) {
    const auto at = static_cast<size_t>(scale_row + idx / storage.scale_inputs);
    row[idx] = code_value(codes[idx]) * (storage.scales[at] / kCodeUnit);
  }
}

}  // namespace forerun
