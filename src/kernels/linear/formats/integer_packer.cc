#include "kernels/linear/formats/integer_packer.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "kernels/linear/formats/grouped.h"
#include "kernels/linear/formats/weight_formats.h"
#include "kernels/linear/linear_weight.h"

namespace forerun {
namespace {

int64_t chunk_of(int64_t in, int64_t group) {
  return group == in ? kInputGroup : std::gcd(group, kInputGroup);
}

Status long_scales() {
  return {StatusCode::kUnsupported,
          "scales: found f32 with more than 15 bits of mantissa for 8-bit groups; accepted: "
          "f16, bf16, f32 with their precision, or f32 for symmetric channels"};
}

Status check_source(int64_t in, const GroupedIntegers& source) {
  if (source.bits != 4 && source.bits != 8) {
    return {StatusCode::kUnsupported,
            "bits: found " + std::to_string(source.bits) + "; accepted: 4, 8"};
  }
  const bool whole = source.group > 0 && source.group % kInputPad == 0 && in % source.group == 0;
  if (!whole && source.group != in) {
    return {StatusCode::kUnsupported,
            "group_size: found " + std::to_string(source.group) + " with " + std::to_string(in) +
                " inputs; accepted: multiples of 32 that divide the inputs, or all inputs"};
  }
  if (source.order == nullptr) return {};
  std::vector<bool> seen(static_cast<size_t>(in));
  for (int32_t input : *source.order) {
    if (input < 0 || input >= in || seen[static_cast<size_t>(input)]) {
      return {StatusCode::kCorrupt, "order of inputs: found " + std::to_string(input) +
                                        "; accepted: each input below " + std::to_string(in) +
                                        " once"};
    }
    seen[static_cast<size_t>(input)] = true;
  }
  if (source.order->size() == seen.size()) return {};
  return {StatusCode::kCorrupt, "order of inputs: found " + std::to_string(source.order->size()) +
                                    " inputs; accepted: " + std::to_string(in)};
}

// Checks all values of scales and zeros for the chosen format.
Status check_values(int64_t out, int64_t in, const GroupedIntegers& source, WeightFormat format) {
  uint32_t scale_bits = 0;  // bits that any scale has set
  const auto groups = static_cast<size_t>(in == 0 ? 0 : in / source.group);
  const int32_t middle = 1 << (source.bits - 1);
  std::vector<float> scales(groups);
  std::vector<int16_t> zeros(groups, static_cast<int16_t>(middle));
  for (int64_t channel = 0; channel < out; ++channel) {
    source.scales(channel, scales);
    if (source.zeros) source.zeros(channel, zeros);
    for (size_t group = 0; group < groups; ++group) {
      if (!std::isfinite(scales[group])) {
        return Status(StatusCode::kCorrupt, "scales: found " + std::to_string(scales[group]) +
                                                " in output channel " + std::to_string(channel) +
                                                "; accepted: finite numbers");
      }
      if (zeros[group] < 0 || zeros[group] > 2 * middle) {
        return Status(StatusCode::kCorrupt, "zero points: found " + std::to_string(zeros[group]) +
                                                " in output channel " + std::to_string(channel) +
                                                "; accepted: 0 to " + std::to_string(2 * middle));
      }
      scale_bits |= std::bit_cast<uint32_t>(scales[group]);
    }
  }
  const bool is_long = (scale_bits & kWideZeroMask) != 0;
  return format == WeightFormat::kInt8Groups && is_long ? long_scales() : Status();
}

Result<WeightFormat> choose_format(int64_t in, const GroupedIntegers& source) {
  const bool is_symmetric = !source.zeros;
  if (source.bits == 8 && is_symmetric && source.group == in) return WeightFormat::kInt8;
  if (is_symmetric && chunk_of(in, source.group) == 32) {
    if (source.bits == 4 && source.scale_type == DType::kF16) return WeightFormat::kQ4_0;
    if (source.bits == 4 && source.scale_type == DType::kBf16) return WeightFormat::kQ4_0Bf16;
    if (source.group == 32 && source.scale_type == DType::kF16) return WeightFormat::kQ8_0;
  }
  if (source.bits == 4) return WeightFormat::kInt4;
  if (!source.has_short_scales) return long_scales();
  return WeightFormat::kInt8Groups;
}

// Stores quants in the lane of a channel, from the first vector of a chunk or an int8 block on.
void store_quants(WeightFormat format, const uint8_t* q, int64_t count, std::byte* lane) {
  if (format == WeightFormat::kInt4) {
    for (int64_t at = 0; at < count; at += 8, lane += kVectorBytes) {
      uint32_t fours[2];
      std::memcpy(fours, q + at, sizeof(fours));
      const uint32_t word = fours[0] | fours[1] << 4;
      std::memcpy(lane, &word, sizeof(word));
    }
    return;
  }
  for (int64_t at = 0; at < count; at += 4, lane += kVectorBytes) std::memcpy(lane, q + at, 4);
}

// The scales and zeros of up to kBlockOuts channels.
struct BlockScales {
  BlockScales(int64_t first, int64_t outs, int64_t in, const GroupedIntegers& source)
      : groups(static_cast<size_t>(in / source.group)),
        scales(groups * static_cast<size_t>(outs)),
        zeros(scales.size(), static_cast<int16_t>(1 << (source.bits - 1))) {
    for (int64_t channel = 0; channel < outs; ++channel) {
      const size_t at = static_cast<size_t>(channel) * groups;
      source.scales(first + channel, {scales.data() + at, groups});
      if (source.zeros) source.zeros(first + channel, {zeros.data() + at, groups});
    }
  }
  size_t at(int64_t channel, int64_t group) const {
    return static_cast<size_t>(channel) * groups + static_cast<size_t>(group);
  }
  size_t groups;
  std::vector<float> scales;
  std::vector<int16_t> zeros;
};

}  // namespace

Result<IntegerPlan> plan_integers(int64_t out, int64_t in, const GroupedIntegers& source) {
  FORERUN_ASSIGN_OR_RETURN(const WeightFormat format, choose_format(in, source));
  return IntegerPlan{format, weight_bytes(format, out, in, chunk_of(in, source.group))};
}

IntegerPacker::IntegerPacker(LinearWeight weight, GroupedIntegers source)
    : weight_(std::move(weight)), source_(std::move(source)) {}

Result<IntegerPacker> IntegerPacker::create(int64_t out, int64_t in, GroupedIntegers source) {
  FORERUN_RETURN_IF_ERROR(check_source(in, source));
  LinearWeight weight;
  weight.out_ = out;
  weight.in_ = in;
  FORERUN_ASSIGN_OR_RETURN(weight.format_, choose_format(in, source));
  FORERUN_RETURN_IF_ERROR(check_values(out, in, source, weight.format_));
  IntegerPacker packer(std::move(weight), std::move(source));
  packer.allocate();
  return packer;
}

void IntegerPacker::allocate() {
  if (is_grouped(format())) {
    grouped_.emplace(format(), weight_.out_, weight_.in_);
    return;
  }
  storage_ = std::make_shared<LinearWeight::Storage>();
  storage_->padded_in = round_up(weight_.in_, kInputPad);
  storage_->chunk = chunk_of(weight_.in_, source_.group);
  storage_->block_bytes = block_bytes(format(), weight_.in_, storage_->chunk);
  data_ = allocate_blocks(*storage_, weight_.out_, weight_.bytes_);
}

void IntegerPacker::pack(int64_t first, int64_t outs) const {
  assert(first % kBlockOuts == 0 && first + outs <= weight_.out_);
  assert(outs % kBlockOuts == 0 || first + outs == weight_.out_);
  // Pads rows, because rows a power of two apart would share the few lines of one set of the cache.
  const int64_t stride = round_up(weight_.in_, kVectorBytes) + kVectorBytes;
  std::vector<uint8_t> quants(static_cast<size_t>(std::min(kBlockOuts, outs) * stride));
  for (int64_t out = first; out < first + outs; out += kBlockOuts) {
    const int64_t channels = std::min(kBlockOuts, first + outs - out);
    const MatrixView<uint8_t> q(quants.data(), {channels, weight_.in_}, stride);
    source_.quants(out, q);
    if (grouped_) {
      pack_grouped_block(out, q);
    } else {
      pack_block(out, q);
    }
  }
}

void IntegerPacker::pack_block(int64_t first, MatrixView<const uint8_t> q) const {
  const int64_t outs = q.dim(0);
  const BlockScales block(first, outs, weight_.in_, source_);
  const WeightFormat format = weight_.format_;
  const uint32_t zero_mask = format == WeightFormat::kInt4 ? kZeroPointMask : kWideZeroMask;
  std::byte* chunk = data_ + first / kBlockOuts * storage_->block_bytes;
  for (int64_t begin = 0; begin < weight_.in_; begin += storage_->chunk) {
    const int64_t count = std::min(storage_->chunk, weight_.in_ - begin);
    const int64_t padded = round_up(count, kInputPad);
    const bool has_words = format != WeightFormat::kInt8 || begin == 0;
    std::byte* const vectors = chunk + (has_words ? kVectorBytes : 0);
    for (int64_t channel = 0; channel < outs; ++channel) {
      if (has_words) {
        const size_t at = block.at(channel, begin / source_.group);
        const uint32_t word =
            format == WeightFormat::kInt8
                ? std::bit_cast<uint32_t>(block.scales[at])
                : scale_word(block.scales[at], static_cast<uint32_t>(block.zeros[at]), zero_mask);
        std::memcpy(chunk + 4 * channel, &word, sizeof(word));
      }
      std::byte* const lane = vectors + 4 * channel;
      if (count == padded) {
        store_quants(format, q.row(channel) + begin, count, lane);
        continue;
      }
      uint8_t last[kInputGroup] = {};
      std::copy_n(q.row(channel) + begin, count, last);
      store_quants(format, last, padded, lane);
    }
    chunk = vectors + padded / (format == WeightFormat::kInt4 ? 8 : 4) * kVectorBytes;
  }
}

void IntegerPacker::pack_grouped_block(int64_t first, MatrixView<const uint8_t> q) const {
  const int64_t outs = q.dim(0);
  const BlockScales block(first, outs, weight_.in_, source_);
  const bool is_bf16 = source_.scale_type == DType::kBf16;
  grouped_->pack(first, outs, [&](int64_t out, int64_t index, std::span<GroupedBlock> to) {
    for (GroupedBlock& each : to) {
      const int64_t begin = index++ * 32;
      std::copy_n(q.row(out - first) + begin, 32, each.q);
      const float scale = block.scales[block.at(out - first, begin / source_.group)];
      each.d = is_bf16 ? std::bit_cast<uint16_t>(to_bf16(scale))
                       : std::bit_cast<uint16_t>(to_f16(scale));
    }
  });
}

LinearWeight IntegerPacker::finish() {
  if (grouped_) {
    weight_ = grouped_->finish();
  } else {
    weight_.storage_ = std::move(storage_);
  }
  weight_.input_order_ = std::move(source_.order);
  return std::move(weight_);
}

Result<LinearWeight> LinearWeight::pack_integers(int64_t out, int64_t in,
                                                 const GroupedIntegers& source) {
  FORERUN_ASSIGN_OR_RETURN(IntegerPacker packer, IntegerPacker::create(out, in, source));
  packer.pack(0, out);
  return packer.finish();
}

}  // namespace forerun
