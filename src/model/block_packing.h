// Repacking of a checkpoint's block formats for the kernels that read them as they are stored. No
// value changes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "checkpoint/blocks/block_fields.h"
#include "checkpoint/checkpoint.h"
#include "kernels/linear/linear.h"
#include "model/shard_plan.h"

namespace forerun {

// Returns the kernel format of a block format; unset if the kernels have none.
std::optional<WeightFormat> kernel_format(BlockFormat format);

// Returns whether pack_blocks() takes the part: there is a kernel format, and no block is cut.
bool packs_blocks(const RawTensor& tensor, const ModulePart& part);

// Copies the fields of a stored block to the form that packers take.
void copy_fields(const BlockFormatInfo& format, const BlockFields& from, GroupedBlock& to);
// Unpacks consecutive stored blocks, which begin at `from`.
void unpack_blocks(const BlockFormatInfo& format, const std::byte* from,
                   std::span<GroupedBlock> to);

// Packs a part of a matrix of blocks, on as many threads as there are cores. packs_blocks() must
// hold for the part.
LinearWeight pack_blocks(const RawTensor& tensor, const ModulePart& part);

}  // namespace forerun
