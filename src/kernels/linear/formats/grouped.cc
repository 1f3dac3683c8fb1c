#include "kernels/linear/formats/grouped.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace forerun {
namespace {

constexpr size_t kFirst = static_cast<size_t>(kGroupedFormats[0].format);

float half_at(const std::byte* at) {
  f16 half;
  std::memcpy(&half, at, sizeof(half));
  return to_float(half);
}

float small_int(std::byte byte) { return static_cast<float>(static_cast<int8_t>(byte)); }

// Returns 2^(e - 128), with a subnormal for e below 2.
float exponent_value(std::byte byte) {
  const auto e = static_cast<uint32_t>(byte);
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

struct GroupScales {
  float scale;
  float min;
};

GroupScales group_scales(const GroupedFormat& format, const std::byte* header, int64_t group,
                         int64_t channel) {
  const std::byte* const scale = header + scale_offset(format, group);
  const std::byte* const min = header + min_offset(format, group);
  const auto level = [&](int64_t offset) { return half_at(header + offset + 2 * channel); };
  const bool minima = has_min(format);
  switch (format.scale) {
    case GroupScale::kF16:
      return {half_at(scale + 2 * channel), minima ? half_at(min + 2 * channel) : 0.0f};
    case GroupScale::kBf16: {
      bf16 d;
      std::memcpy(&d, scale + 2 * channel, sizeof(d));
      return {to_float(d), 0.0f};
    }
    case GroupScale::kE8m0:
      return {exponent_value(scale[channel]), 0.0f};
    case GroupScale::kTwoLevels:
      return {level(0) * small_int(scale[channel]),
              minima ? level(32) * small_int(min[channel]) : 0.0f};
    case GroupScale::kNibbles:
      break;
  }
  return {level(0) * small_int(scale[channel] & std::byte{15}),
          level(32) * small_int(scale[channel] >> 4)};
}

// Returns the quant of input `in` of a unit; `lane` is the channel's first byte.
uint32_t quant(int bits, const std::byte* lane, int64_t in) {
  const int64_t four = in / 4;
  // Takes `count` bits from bit `bit` on of the input's byte of a vector.
  const auto pick = [&](int64_t vector, int64_t bit, uint32_t count) {
    const auto byte = static_cast<uint32_t>(lane[vector * kVectorBytes + in % 4]);
    return (byte >> bit) & ((1u << count) - 1);
  };
  switch (bits) {
    case 2:
      return pick(four / 4, four % 4 * 2, 2);
    case 3:
      return pick(four / 4, four % 4 * 2, 2) | pick(2, four, 1) << 2;
    case 4:
      return pick(four / 2, four % 2 * 4, 4);
    case 5:
      return pick(four / 2, four % 2 * 4, 4) | pick(4, four, 1) << 4;
    case 6:
      return pick(four / 2, four % 2 * 4, 4) | pick(4 + four / 4, four % 4 * 2, 2) << 4;
    default:
      return pick(four, 0, 8);
  }
}

}  // namespace

bool is_grouped(WeightFormat format) { return static_cast<size_t>(format) >= kFirst; }

const GroupedFormat& grouped_format(WeightFormat format) {
  assert(is_grouped(format));
  return kGroupedFormats[static_cast<size_t>(format) - kFirst];
}

void dequantize_grouped(const GroupedFormat& format, const LinearWeight::Storage& storage,
                        int64_t out, int64_t in, float* row) {
  const int64_t channel = out % kBlockOuts;
  const std::byte* section = storage.data + out / kBlockOuts * storage.block_bytes;
  for (int64_t begin = 0; begin < in; begin += section_inputs(format)) {
    const int64_t count = std::min(int64_t{section_inputs(format)}, in - begin);
    const std::byte* const lane = section + header_bytes(format) + 4 * channel;
    GroupScales scales = {};
    for (int64_t idx = 0; idx < count; ++idx) {
      if (idx % format.group == 0) {
        scales = group_scales(format, section, idx / format.group, channel);
      }
      const uint32_t q = quant(format.bits, lane + idx / 32 * unit_bytes(format), idx % 32);
      const int32_t level =
          static_cast<int32_t>(has_code_book(format) ? format.book.levels[q] : q) - format.zero;
      float value = scales.scale * static_cast<float>(level);
      if (format.min == GroupMin::kAdded) value = value + scales.min;
      if (format.min == GroupMin::kSubtracted) value = value - scales.min;
      row[begin + idx] = value;
    }
    section += section_bytes(format);
  }
}

}  // namespace forerun
