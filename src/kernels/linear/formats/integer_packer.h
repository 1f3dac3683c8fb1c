// Packs weights that files keep as integers in groups of inputs, with a scale and maybe a zero
// point for each group and output channel: GPTQ, AWQ, compressed-tensors.
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

// A weight is float(q - zero) * scale in f32. Inputs count in the weight's own order (`order`). All
// threads that pack call the functions. Formats follow from the other fields alone.
struct GroupedIntegers {
  int bits = 4;                    // 4 or 8
  int64_t group = 128;             // divides the inputs; a multiple of 32, or all inputs
  DType scale_type = DType::kF16;  // as stored: kF16, kBf16 or kF32
  // Whether no scale has more than 15 bits of mantissa, as none of f16 and bf16 has.
  bool has_short_scales = true;
  // Fills `q` [outs][inputs] with the quants of channels from `first` on, 16 at most.
  std::function<void(int64_t first, MatrixView<uint8_t> q)> quants;
  // Fills `scales`, one for each group. All are finite.
  std::function<void(int64_t out, std::span<float> scales)> scales;
  // Fills `zeros`, one for each group, from 0 to 1 << bits. Empty: all are 1 << (bits - 1).
  std::function<void(int64_t out, std::span<int16_t> zeros)> zeros;
  // LinearWeight::input_order(); null if it is that of the layer.
  std::shared_ptr<const std::vector<int32_t>> order;
};

struct IntegerPlan {
  WeightFormat format;
  int64_t bytes;
};
// The format that IntegerPacker chooses, and the bytes that it allocates. Calls no function of the
// source. kUnsupported where no format has place for the weights.
Result<IntegerPlan> plan_integers(int64_t out, int64_t in, const GroupedIntegers& source);

// Chooses the kernel format that holds every weight exactly and packs into it. One exception: an
// f32 scale of 4-bit weights is rounded to 19 bits of mantissa. Formats, and bytes for `group`
// inputs of a channel (`chunk`: the largest power of two up to 128 that divides the group; 128 if
// the group has all inputs):
//
//   int8         group + 4             8 bits, symmetric, the group has all inputs
//   q4_0         18 for 32 inputs      4 bits, symmetric, f16, chunk 32
//   q4_0_bf16    18 for 32 inputs      4 bits, symmetric, bf16, chunk 32
//   q8_0         34 for 32 inputs      8 bits, symmetric, f16, groups of 32
//   int4         chunk / 2 + 4         all others of 4 bits
//   int8_groups  chunk + 4             all others of 8 bits, if has_short_scales
//
// Symmetric: no function for zeros.
class IntegerPacker {
 public:
  // Reads all scales and zeros, then allocates memory. What cannot be packed is refused: scales
  // that are no numbers, zeros beyond their range, and a long scale where has_short_scales says
  // none.
  static Result<IntegerPacker> create(int64_t out, int64_t in, GroupedIntegers source);

  WeightFormat format() const { return weight_.format(); }

  // Packs output channels [first, first + outs). `first` is a multiple of 16, and so is `outs`,
  // except at the end. Different ranges may be packed at the same time.
  void pack(int64_t first, int64_t outs) const;

  // The weight, after all channels have been packed. The packer is of no use afterwards.
  LinearWeight finish();

 private:
  IntegerPacker(LinearWeight weight, GroupedIntegers source);
  // Allocates memory for the chosen format.
  void allocate();
  // `q` [outs][inputs]
  void pack_block(int64_t first, MatrixView<const uint8_t> q) const;
  void pack_grouped_block(int64_t first, MatrixView<const uint8_t> q) const;

  LinearWeight weight_;
  GroupedIntegers source_;
  std::optional<GroupedPacker> grouped_;
  std::shared_ptr<LinearWeight::Storage> storage_;  // null if grouped
  std::byte* data_ = nullptr;
};

}  // namespace forerun
