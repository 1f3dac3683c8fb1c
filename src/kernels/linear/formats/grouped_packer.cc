#include "kernels/linear/formats/grouped_packer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "kernels/linear/formats/grouped.h"
#include "kernels/linear/formats/grouped_formats.h"
#include "kernels/linear/formats/grouped_lanes.h"
#include "kernels/linear/formats/weight_formats.h"
#include "kernels/linear/linear_weight.h"

namespace forerun {
namespace {

using grouped_lanes::store_vector_lane;

// Moves the bits of every byte from position kFrom to position kTo; `mask` applies to the result.
template <int kFrom, int kTo>
uint32_t move_bits(uint32_t bytes, uint32_t mask) {
  if constexpr (kFrom >= kTo) {
    return (bytes >> (kFrom - kTo)) & mask;
  } else {
    return (bytes << (kTo - kFrom)) & mask;
  }
}

// Takes two bits of each of 16 inputs, from bit kFrom of a quant on.
template <int kFrom>
uint32_t two_bits(const uint32_t* fours) {
  return move_bits<kFrom, 0>(fours[0], 0x03030303u) | move_bits<kFrom, 2>(fours[1], 0x0c0c0c0cu) |
         move_bits<kFrom, 4>(fours[2], 0x30303030u) | move_bits<kFrom, 6>(fours[3], 0xc0c0c0c0u);
}

// Takes bit kFrom of each of 32 inputs.
template <int kFrom>
uint32_t one_bit(const uint32_t* fours) {
  uint32_t word = 0;
  for (int four = 0; four < 8; ++four) word |= ((fours[four] >> kFrom) & 0x01010101u) << four;
  return word;
}

// Packs 32 quants of one channel into the channel's lane of a unit.
template <int kBits>
void pack_unit(const uint8_t* q, std::byte* lane) {
  uint32_t fours[8];
  std::memcpy(fours, q, sizeof(fours));
  if constexpr (kBits == 8) {
    for (int four = 0; four < 8; ++four) store_vector_lane(lane, four, fours[four]);
    return;
  }
  if constexpr (kBits >= 4) {
    for (int pair = 0; pair < 4; ++pair) {
      const uint32_t low = fours[2 * pair] & 0x0f0f0f0fu;
      store_vector_lane(lane, pair, low | ((fours[2 * pair + 1] & 0x0f0f0f0fu) << 4));
    }
    if constexpr (kBits == 5) store_vector_lane(lane, 4, one_bit<4>(fours));
    if constexpr (kBits == 6) {
      store_vector_lane(lane, 4, two_bits<4>(fours));
      store_vector_lane(lane, 5, two_bits<4>(fours + 4));
    }
    return;
  }
  store_vector_lane(lane, 0, two_bits<0>(fours));
  store_vector_lane(lane, 1, two_bits<0>(fours + 4));
  if constexpr (kBits == 3) store_vector_lane(lane, 2, one_bit<2>(fours));
}

// The blocks to pack, and their destination.
struct PackTask {
  std::byte* section;  // first section of the block of channels
  int64_t out;         // its first channel
  int64_t channels;    // up to kBlockOuts
  int64_t block_count;
};

template <int kIndex>
void pack_channels(const PackTask& task, const GroupSource& source) {
  constexpr GroupedFormat format = kGroupedFormats[kIndex];
  constexpr int64_t kSectionBlocks = section_inputs(format) / block_inputs(format);
  GroupedBlock blocks[kSectionBlocks];
  std::byte* section = task.section;
  for (int64_t begin = 0; begin < task.block_count; begin += kSectionBlocks) {
    const int64_t count = std::min(kSectionBlocks, task.block_count - begin);
    for (int64_t channel = 0; channel < task.channels; ++channel) {
      source(task.out + channel, begin, {blocks, static_cast<size_t>(count)});
      // Padding has a scale of zero, or (e8m0) the quant that stands for zero.
      for (int64_t idx = count; idx < kSectionBlocks; ++idx) blocks[idx] = {};
      grouped_lanes::store_header<kIndex>(blocks, channel, section);
      std::byte* lane = section + header_bytes(format) + 4 * channel;
      for (const GroupedBlock& block : blocks) {
        for (int64_t in = 0; in < block_inputs(format); in += 32, lane += unit_bytes(format)) {
          pack_unit<format.bits>(block.q + in, lane);
        }
      }
    }
    section += section_bytes(format);
  }
}

using PackChannels = void (*)(const PackTask& task, const GroupSource& source);

template <size_t... kIndices>
PackChannels packer_of(size_t index, std::index_sequence<kIndices...> /*formats*/) {
  constexpr PackChannels kPackers[] = {pack_channels<int{kIndices}>...};
  return kPackers[index];
}

}  // namespace

GroupedPacker::GroupedPacker(WeightFormat format, int64_t out, int64_t in)
    : format_(format),
      out_(out),
      in_(in),
      data_(nullptr),
      storage_(std::make_shared<LinearWeight::Storage>()) {
  const GroupedFormat& grouped = grouped_format(format);
  assert(in % block_inputs(grouped) == 0);
  storage_->padded_in = round_up(in, section_inputs(grouped));
  storage_->chunk = grouped.group;
  storage_->block_bytes = block_bytes(format, in);
  data_ = allocate_blocks(*storage_, out, bytes_);
}

void GroupedPacker::pack(int64_t first, int64_t outs, const GroupSource& source) const {
  const GroupedFormat& format = grouped_format(format_);
  assert(first % kBlockOuts == 0 && first + outs <= out_);
  assert(outs % kBlockOuts == 0 || first + outs == out_);
  const PackChannels pack_channels_of = packer_of(static_cast<size_t>(&format - kGroupedFormats),
                                                  std::make_index_sequence<kGroupedFormatCount>());
  for (int64_t out = first; out < first + outs; out += kBlockOuts) {
    pack_channels_of({.section = data_ + out / kBlockOuts * storage_->block_bytes,
                      .out = out,
                      .channels = std::min(kBlockOuts, out_ - out),
                      .block_count = in_ / block_inputs(format)},
                     source);
  }
}

std::byte* GroupedPacker::block_of(int64_t first) const {
  assert(first % kBlockOuts == 0 && first < out_);
  return data_ + first / kBlockOuts * storage_->block_bytes;
}

LinearWeight GroupedPacker::finish() {
  LinearWeight weight;
  weight.out_ = out_;
  weight.in_ = in_;
  weight.format_ = format_;
  weight.bytes_ = bytes_;
  weight.storage_ = std::move(storage_);
  return weight;
}

LinearWeight LinearWeight::pack_grouped(WeightFormat format, int64_t out, int64_t in,
                                        const GroupSource& source) {
  GroupedPacker packer(format, out, in);
  packer.pack(0, out, source);
  return packer.finish();
}

}  // namespace forerun
