// A packer of weights in the formats of kernels/linear/formats/grouped_formats.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/linear/linear.h"

namespace forerun {

// The fields of a block of 32 inputs (one level) or 256 inputs (two levels) of one output channel.
// A format ignores the fields that it does not use.
struct GroupedBlock {
  uint8_t q[256];    // [inputs]: quants, below 1 << bits
  int8_t scale[16];  // [groups]: integer scales of two levels
  int8_t min[16];    // [groups]: integer minima of two levels
  uint16_t d;        // bits of an f16 or a bf16, or an exponent of 8 bits
  uint16_t dmin;     // bits of an f16: dmin, or the minimum that is added
};

// Fills `to` with consecutive blocks of output channel `out`, from block `block` on. All packing
// threads call it.
using GroupSource = std::function<void(int64_t out, int64_t block, std::span<GroupedBlock> to)>;

// A packer of one weight. Different ranges of output channels may be packed at the same time.
class GroupedPacker {
 public:
  // Allocates zeroed memory. `in` is a multiple of a block's inputs.
  GroupedPacker(WeightFormat format, int64_t out, int64_t in);

  // Packs output channels [first, first + outs). `first` is a multiple of kBlockOuts, and so is
  // `outs`, except at the end. Holds a few hundred inputs of one channel at a time.
  void pack(int64_t first, int64_t outs, const GroupSource& source) const;

  // Returns the memory of output channels [first, first + 16), `first` a multiple of 16, for code
  // that writes their sections itself (grouped_lanes.h). The memory does not move; channels past
  // `out` and inputs past `in` must stay zero.
  std::byte* block_of(int64_t first) const;

  // Returns the weight, after all channels have been packed. The packer cannot be used afterwards.
  LinearWeight finish();

 private:
  WeightFormat format_;
  int64_t out_;
  int64_t in_;
  size_t bytes_ = 0;
  std::byte* data_;
  std::shared_ptr<LinearWeight::Storage> storage_;
};

}  // namespace forerun
