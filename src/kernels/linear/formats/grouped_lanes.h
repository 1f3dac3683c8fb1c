// Code that writes one channel's part of a section (grouped_formats.h), shared by all packers.
//
// `lane` is the first byte of the channel's lane of a unit's first vector, `header` that of a
// section's header.
//
// All functions are pure; different channels may be written at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/linear/formats/grouped_formats.h"
#include "kernels/linear/linear_weight.h"

namespace forerun::grouped_lanes {

// Returns the entry of a format in kGroupedFormats.
constexpr int line_of(WeightFormat format) {
  return static_cast<int>(format) - static_cast<int>(kGroupedFormats[0].format);
}

inline void store_vector_lane(std::byte* lane, int64_t vector, uint32_t word) {
  std::memcpy(lane + vector * kVectorBytes, &word, sizeof(word));
}

inline void store_half(std::byte* at, uint16_t half) { std::memcpy(at, &half, sizeof(half)); }

// Writes a channel's part of a header. kLine is the format's entry of kGroupedFormats. Block is
// GroupedBlock, or another type with the same d, dmin, scale and min; `blocks` are those of a
// section.
template <int kLine, class Block>
void store_header(const Block* blocks, int64_t channel, std::byte* header) {
  constexpr GroupedFormat format = kGroupedFormats[kLine];
  if (has_two_levels(format)) {
    store_half(header + 2 * channel, blocks->d);
    if (has_min(format)) store_half(header + 32 + 2 * channel, blocks->dmin);
  }
  for (int group = 0; group < section_groups(format); ++group) {
    std::byte* const scale = header + scale_offset(format, group);
    std::byte* const min = header + min_offset(format, group);
    switch (format.scale) {
      case GroupScale::kF16:
      case GroupScale::kBf16:
        store_half(scale + 2 * channel, blocks[group].d);
        if (has_min(format)) store_half(min + 2 * channel, blocks[group].dmin);
        break;
      case GroupScale::kE8m0:
        scale[channel] = static_cast<std::byte>(blocks[group].d);
        break;
      case GroupScale::kTwoLevels:
        scale[channel] = static_cast<std::byte>(blocks->scale[group]);
        if (has_min(format)) min[channel] = static_cast<std::byte>(blocks->min[group]);
        break;
      case GroupScale::kNibbles:
        scale[channel] = static_cast<std::byte>(blocks->scale[group] | (blocks->min[group] << 4));
        break;
    }
  }
}

}  // namespace forerun::grouped_lanes
