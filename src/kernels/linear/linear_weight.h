// The memory layout of LinearWeight, shared by the packer and the kernels of every instruction set.
//
// f32, bf16, f16 and FP8 weights are views of the caller's [out][in]. int4 and int8 are repacked
// into blocks of 16 output channels with one channel per 32-bit lane. One 64-byte vector then holds
// four (int8) or eight (int4) consecutive inputs of 16 channels, a block is read sequentially, and
// sums need no reduction across lanes:
//
//   int4: block = in / chunk times { 16 words: the scale's f32 bits with the zero point in the low
//         5 bits; chunk / 8 vectors: byte j of a lane has input j in its low, 4 + j in its high
//         nibble }
//   int8: block = { 16 f32 scales; padded_in / 4 vectors: byte j of a lane is input j plus 128 }
//   int8 groups: like int4, but the zero point takes the low 9 bits of the scale word, and byte j
//         of a lane is input j
//
// The last chunk of a block is shorter if it would exceed padded_in.
//
// bf16 pairs are repacked in the same way, for CPUs with a dot instruction of two bf16 per lane:
//
//   pairs: block = padded_in / 2 vectors: half j of a lane is input j
//
// Grouped formats have blocks of the same 16 channels, which formats/grouped_formats.h describes.
//
// Channels past `out` have weights of 0. Scales of int4 that come from f16 or bf16 keep all their
// bits; an f32 scale is rounded to 19 bits of mantissa.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/linear/linear.h"

namespace forerun {

inline constexpr int64_t kBlockOuts = 16;       // output channels per block
inline constexpr int64_t kInputGroup = 128;     // inputs that share one scale in LinearInput
inline constexpr int64_t kInputPad = 32;        // int8, pairs: inputs are padded to a multiple
inline constexpr int64_t kVectorBytes = 64;     // 16 lanes of 32 bits
inline constexpr uint32_t kZeroPointMask = 31;  // bits of an int4 scale word
inline constexpr uint32_t kWideZeroMask = 511;  // bits of a scale word of int8 groups

struct LinearWeight::Storage {
  const std::byte* data = nullptr;  // [out][in] views, or the first block
  int64_t row_bytes = 0;            // views: stride of output channels
  int64_t block_bytes = 0;          // repacked formats: stride of blocks
  int64_t chunk = 0;                // inputs that share a scale: 16 (grouped), 32, 64 or 128
  int64_t padded_in = 0;            // repacked formats: inputs stored, a multiple of 32
  std::shared_ptr<void> owner;      // keeps `data` alive; null for views
  // FP8: [ceil(out / scale_outs)][ceil(in / scale_inputs)] scales times 2^8 (formats/fp8.cc).
  std::vector<float> scales;
  int64_t scales_stride = 0;
  int64_t scale_outs = 1;
  int64_t scale_inputs = 1;
};

// Returns zeroed memory for repacked weights, aligned to 64 bytes. Small requests share chunks on
// huge pages (a model of 34 M parameters in 4 KiB pages overflows the TLB); a chunk is freed with
// its last user. Thread-safe.
std::shared_ptr<void> allocate_weights(size_t bytes);

// Allocates zeroed memory for the blocks of `out` channels; storage.block_bytes must be set.
// Returns the beginning of the memory, and its size in `bytes`.
std::byte* allocate_blocks(LinearWeight::Storage& storage, int64_t out, size_t& bytes);

// Kernels must not call it, because files of different instruction sets must not share a copy.
inline int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
// Returns a scale rounded to nearest, so that the bits of `zero_mask` can hold a zero point.
inline uint32_t scale_word(float scale, uint32_t zero, uint32_t zero_mask) {
  uint32_t bits = std::bit_cast<uint32_t>(scale);
  if (std::isfinite(scale)) bits += (zero_mask + 1) / 2;
  return (bits & ~zero_mask) | zero;
}
inline uint32_t load_word(const std::byte* from) {
  uint32_t word = 0;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

}  // namespace forerun
