// A packer of weights that files store as integers in groups of inputs, with a scale and perhaps a
// zero point per group and output channel: GPTQ, AWQ, compressed-tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/tensor_view.h"
#include "forerun/status.h"
#include "kernels/linear/formats/grouped_packer.h"
#include "kernels/linear/linear.h"

namespace forerun {

// The source of integer weights. A weight is float(q - zero) * scale in f32. Inputs count in the
// weight's own order (`order`). All packing threads call the functions. Only the other fields
// determine the format.
struct GroupedIntegers {
  int bits = 4;                    // 4 or 8
  int64_t group = 128;             // divides the inputs; a multiple of 32, or all inputs
  DType scale_type = DType::kF16;  // as stored: kF16, kBf16 or kF32
  // True if no scale needs more than 15 bits of mantissa, as is the case for f16 and bf16.
  bool has_short_scales = true;
  // Fills `q` [outs][inputs] with the quants of channels from `first` on, 16 at most.
  std::function<void(int64_t first, MatrixView<uint8_t> q)> quants;
  // Fills `scales`, one per group. All are finite.
  std::function<void(int64_t out, std::span<float> scales)> scales;
  // Fills `zeros`, one per group, from 0 to 1 << bits. If empty, all are 1 << (bits - 1).
  std::function<void(int64_t out, std::span<int16_t> zeros)> zeros;
  // LinearWeight::input_order(); null for the layer's order.
  std::shared_ptr<const std::vector<int32_t>> order;
};

struct IntegerPlan {
  WeightFormat format;
  int64_t bytes;
};
// Returns the format that IntegerPacker chooses, and the bytes that it allocates. Calls no function
// of the source. Returns kUnsupported if no format can hold the weights.
Result<IntegerPlan> plan_integers(int64_t out, int64_t in, const GroupedIntegers& source);

// A packer that chooses the kernel format that holds every weight exactly and packs into it. One
// exception: an f32 scale of 4-bit weights is rounded to 19 bits of mantissa. Formats, and bytes
// for `group` inputs of a channel (`chunk`: the largest power of two up to 128 that divides the
// group; 128 if the group has all inputs):
//
//   int8         group + 4             8 bits, symmetric, the group has all inputs
//   q4_0         18 for 32 inputs      4 bits, symmetric, f16, chunk 32
//   q4_0_bf16    18 for 32 inputs      4 bits, symmetric, bf16, chunk 32
//   q8_0         34 for 32 inputs      8 bits, symmetric, f16, groups of 32
//   int4         chunk / 2 + 4         all others of 4 bits
//   int8_groups  chunk + 4             all others of 8 bits, if has_short_scales
//
// Symmetric means that there is no function for zeros.
class IntegerPacker {
 public:
  // Reads all scales and zeros, then allocates memory. Refuses scales that are no numbers, zeros
  // beyond their range, and a long scale if has_short_scales is set.
  static Result<IntegerPacker> create(int64_t out, int64_t in, GroupedIntegers source);

  WeightFormat format() const { return weight_.format(); }

  // Packs output channels [first, first + outs). `first` is a multiple of 16, and so is `outs`,
  // except at the end. Different ranges may be packed at the same time.
  void pack(int64_t first, int64_t outs) const;

  // Returns the weight, after all channels have been packed. The packer cannot be used afterwards.
  LinearWeight finish();

 private:
  IntegerPacker(LinearWeight weight, GroupedIntegers source);
  // Allocates memory for the chosen format.
  void allocate();
  // Packs `q` [outs][inputs], the quants of one block.
  void pack_block(int64_t first, MatrixView<const uint8_t> q) const;
  void pack_grouped_block(int64_t first, MatrixView<const uint8_t> q) const;

  LinearWeight weight_;
  GroupedIntegers source_;
  std::optional<GroupedPacker> grouped_;
  std::shared_ptr<LinearWeight::Storage> storage_;  // null for grouped formats
  std::byte* data_ = nullptr;
};

}  // namespace forerun
