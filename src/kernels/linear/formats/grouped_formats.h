// The formats that kernels read as they are stored, most of them GGUF's: small integers (quants)
// with scales that groups of 16 or 32 inputs share. Each format is one entry of kGroupedFormats.
//
// A weight is, in f32, each operation rounded,
//
//   scale * float(level(q) - zero) [- min]       level(q) = code_book[q], or q without a code book
//
// With one level, `scale` is the group's own f16, bf16 or exponent, and a minimum is an f16 that is
// added. With two levels, 256 inputs share the f16 d and dmin; scale = d * (int8 of the group), min
// = dmin * (int8 of the group).
//
// Memory (linear_weight.h has the blocks of 16 output channels): a block is a sequence of sections
// of section_inputs(format) inputs, each a header and then a unit for every 32 inputs. The inputs
// are padded with zeros to whole sections. A header, for all 16 channels:
//
//   kF16, kBf16: d of each group (16 f16 or bf16), then the minima of each group likewise
//   kE8m0:       one byte a group and channel: e stands for 2^(e - 128)
//   kTwoLevels:  d, then dmin if there are minima (16 f16); int8 scales of each group, then int8
//                minima of each group
//   kNibbles:    d, dmin; a byte a group and channel: the scale in the low nibble, the minimum in
//                the high nibble
//
// and zeros up to a multiple of 64 bytes. A unit has `bits` vectors of 64 bytes, one channel per
// 32-bit lane. "Four k" are inputs 4k to 4k + 3, one per byte of a lane:
//
//   8 bits:     vector k is four k
//   4, 5, 6:    vector k is four 2k in the low and four 2k + 1 in the high nibbles, k < 4; then
//               5: one vector whose bits k of every byte are bit 4 of four k
//               6: two vectors; bits 2k and 2k + 1 of vector j are bits 4 and 5 of four 4j + k
//   2, 3:       two vectors; bits 2k and 2k + 1 of vector j are bits 0 and 1 of four 4j + k; then
//               3: one vector whose bits k of every byte are bit 2 of four k
//
// Files of every instruction set include this header, so only constant expressions may use it.
#pragma once

#include <cstdint>

#include "kernels/linear/weight_format.h"

namespace forerun {

enum class GroupScale : uint8_t { kF16, kBf16, kE8m0, kTwoLevels, kNibbles };
enum class GroupMin : uint8_t { kNone, kAdded, kSubtracted };

// A table of sixteen levels, not all 0.
struct CodeBook {
  uint8_t levels[16];
};
// The entries of IQ4, plus 128.
inline constexpr CodeBook kIq4Book = {
    {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}};
// Twice the numbers of FP4 (e2m1), plus 12.
inline constexpr CodeBook kFp4Book = {{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0}};

struct GroupedFormat {
  WeightFormat format;
  const char* name;
  int bits;   // bits per quant
  int group;  // inputs that share a scale
  int zero;
  GroupScale scale;
  GroupMin min = GroupMin::kNone;
  CodeBook book = {};
};

// The columns are format, name, bits, group, zero, scales, minima and code book.
inline constexpr GroupedFormat kGroupedFormats[] = {
    {WeightFormat::kQ4_0, "q4_0", 4, 32, 8, GroupScale::kF16},
    {WeightFormat::kQ4_1, "q4_1", 4, 32, 0, GroupScale::kF16, GroupMin::kAdded},
    {WeightFormat::kQ5_0, "q5_0", 5, 32, 16, GroupScale::kF16},
    {WeightFormat::kQ5_1, "q5_1", 5, 32, 0, GroupScale::kF16, GroupMin::kAdded},
    {WeightFormat::kQ8_0, "q8_0", 8, 32, 128, GroupScale::kF16},
    {WeightFormat::kQ2_K, "q2_k", 2, 16, 0, GroupScale::kNibbles, GroupMin::kSubtracted},
    {WeightFormat::kQ3_K, "q3_k", 3, 16, 4, GroupScale::kTwoLevels},
    {WeightFormat::kQ4_K, "q4_k", 4, 32, 0, GroupScale::kTwoLevels, GroupMin::kSubtracted},
    {WeightFormat::kQ5_K, "q5_k", 5, 32, 0, GroupScale::kTwoLevels, GroupMin::kSubtracted},
    {WeightFormat::kQ6_K, "q6_k", 6, 16, 32, GroupScale::kTwoLevels},
    {WeightFormat::kIq4Nl, "iq4_nl", 4, 32, 128, GroupScale::kF16, GroupMin::kNone, kIq4Book},
    {WeightFormat::kIq4Xs, "iq4_xs", 4, 32, 128, GroupScale::kTwoLevels, GroupMin::kNone, kIq4Book},
    {WeightFormat::kMxfp4, "mxfp4", 4, 32, 12, GroupScale::kE8m0, GroupMin::kNone, kFp4Book},
    {WeightFormat::kQ4_0Bf16, "q4_0_bf16", 4, 32, 8, GroupScale::kBf16},
};
inline constexpr int kGroupedFormatCount = sizeof(kGroupedFormats) / sizeof(kGroupedFormats[0]);

constexpr bool has_two_levels(const GroupedFormat& format) {
  return format.scale == GroupScale::kTwoLevels || format.scale == GroupScale::kNibbles;
}
// Returns whether a group has a scale of 16 bits.
constexpr bool has_halves(const GroupedFormat& format) {
  return format.scale == GroupScale::kF16 || format.scale == GroupScale::kBf16;
}
constexpr bool has_code_book(const GroupedFormat& format) { return format.book.levels[1] != 0; }
constexpr bool has_min(const GroupedFormat& format) { return format.min != GroupMin::kNone; }
// Returns the inputs of one GroupedBlock.
constexpr int block_inputs(const GroupedFormat& format) {
  return has_two_levels(format) ? 256 : 32;
}
constexpr int section_inputs(const GroupedFormat& format) {
  return has_two_levels(format) ? 256 : format.scale == GroupScale::kE8m0 ? 128 : 64;
}
constexpr int section_groups(const GroupedFormat& format) {
  return section_inputs(format) / format.group;
}
// Returns the bits of the largest level.
constexpr int level_bits(const GroupedFormat& format) {
  if (!has_code_book(format)) return format.bits;
  int bits = format.bits;
  for (int level : format.book.levels) {
    while (level >> bits != 0) ++bits;
  }
  return bits == 7 ? 8 : bits;
}

// Offsets of one group's scales and minima in a header.
constexpr int64_t scale_offset(const GroupedFormat& format, int64_t group) {
  if (has_halves(format)) return group * 32;
  const int levels = !has_two_levels(format) ? 0 : has_min(format) ? 64 : 32;
  return levels + group * 16;
}
constexpr int64_t min_offset(const GroupedFormat& format, int64_t group) {
  if (format.scale == GroupScale::kNibbles) return scale_offset(format, group);
  return scale_offset(format, section_groups(format)) + scale_offset(format, group) -
         scale_offset(format, 0);
}
constexpr int64_t header_bytes(const GroupedFormat& format) {
  const int groups = section_groups(format);
  const bool apart = has_min(format) && format.scale != GroupScale::kNibbles;
  const int64_t bytes = apart ? min_offset(format, groups) : scale_offset(format, groups);
  return (bytes + 63) / 64 * 64;
}
constexpr int64_t unit_bytes(const GroupedFormat& format) { return 64 * format.bits; }
constexpr int64_t section_bytes(const GroupedFormat& format) {
  return header_bytes(format) + section_inputs(format) / 32 * unit_bytes(format);
}

}  // namespace forerun
