#include "model/integer_blocks.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/cpu/portions.h"

namespace forerun {
namespace {

using cuda::LinearFormat;

constexpr int64_t kBlockInputs = 32;
constexpr int64_t kThreadOuts = 16;  // outputs that a thread takes at a time

int64_t block_bytes(LinearFormat format) {
  return format == LinearFormat::kQ8_0 ? 34 : format == LinearFormat::kQ4_0 ? 18 : 19;
}

// Writes a block from the quants of its inputs.
void write_block(LinearFormat format, f16 scale, int16_t zero, const uint8_t* q, std::byte* to) {
  std::memcpy(to, &scale.bits, sizeof(scale.bits));
  to += sizeof(scale.bits);
  if (format == LinearFormat::kQ8_0) {
    for (int64_t i = 0; i < kBlockInputs; ++i) to[i] = std::byte{q[i]} ^ std::byte{0x80};
    return;
  }
  if (format != LinearFormat::kQ4_0) *to++ = static_cast<std::byte>(zero);
  constexpr int64_t kHalf = kBlockInputs / 2;
  for (int64_t i = 0; i < kHalf; ++i) to[i] = static_cast<std::byte>(q[i] | q[i + kHalf] << 4);
}

}  // namespace

std::optional<LinearFormat> gpu_integer_format(const WeightParts& parts, const ModulePart& part) {
  const auto range = parts.integers(part.out.begin, part.out.end, part.in.begin, part.in.end);
  if (!range || !range->order.empty() || range->group % kBlockInputs != 0) return std::nullopt;
  const auto whole_units = [&part](LinearFormat format) -> std::optional<LinearFormat> {
    const int inputs = cuda::unit_inputs(format);
    const bool are_whole = part.in.begin % inputs == 0 && part.in.size() % inputs == 0;
    return are_whole ? std::optional(format) : std::nullopt;
  };
  std::optional<LinearFormat> format;
  if (range->bits == 8) {
    if (!range->has_zeros) format = whole_units(LinearFormat::kQ8_0);
  } else if (range->group % cuda::unit_inputs(LinearFormat::kInt4Group128) == 0 &&
             parts.has_zeros_of_bits()) {
    format = whole_units(LinearFormat::kInt4Group128);
  } else {
    format = whole_units(range->has_zeros ? LinearFormat::kInt4Zeros : LinearFormat::kQ4_0);
  }
  return format && parts.has_f16_scales() ? format : std::nullopt;
}

int64_t integer_row_bytes(LinearFormat format, int64_t ins) {
  return ins / kBlockInputs * block_bytes(format);
}

Status make_integer_blocks(const WeightParts& parts, const ModulePart& part, LinearFormat format,
                           std::span<std::byte> rows) {
  const auto range = parts.integers(part.out.begin, part.out.end, part.in.begin, part.in.end);
  const int64_t outs = part.out.size(), ins = part.in.size();
  const int64_t row_bytes = integer_row_bytes(format, ins);
  const int64_t count = (outs + kThreadOuts - 1) / kThreadOuts;
  std::atomic<bool> are_numbers = true;
  share_portions(count, count, [&](Portions& portions) {
    std::vector<uint8_t> quants(static_cast<size_t>(kThreadOuts * ins));
    std::vector<float> scales(static_cast<size_t>(range->groups()));
    std::vector<int16_t> zeros(scales.size(), static_cast<int16_t>(1 << (range->bits - 1)));
    while (const auto portion = portions.next()) {
      const int64_t first = *portion * kThreadOuts;
      const int64_t some = std::min(kThreadOuts, outs - first);
      range->quants(first, {quants.data(), {some, ins}});
      for (int64_t out = 0; out < some; ++out) {
        range->scales(first + out, scales.data());
        if (range->has_zeros) range->zeros(first + out, zeros.data());
        const uint8_t* const q = quants.data() + out * ins;
        std::byte* to = rows.data() + (first + out) * row_bytes;
        for (int64_t in = 0; in < ins; in += kBlockInputs, to += block_bytes(format)) {
          const auto group = static_cast<size_t>(in / range->group);
          const bool is_zero = zeros[group] >= 0 && zeros[group] <= 1 << range->bits;
          if (!is_zero || !std::isfinite(scales[group])) are_numbers = false;
          write_block(format, to_f16(scales[group]), zeros[group], q + in, to);
        }
      }
    }
  });
  if (are_numbers) return {};
  return {StatusCode::kCorrupt, "found a scale that is no number, or a zero point beyond " +
                                    std::to_string(1 << range->bits) +
                                    "; accepted: finite scales and zero points from 0 on"};
}

}  // namespace forerun
