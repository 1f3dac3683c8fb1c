// Weights of a checkpoint's block formats, repacked for the kernels that read them as they are
// stored. No value changes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "checkpoint/blocks/block_fields.h"
#include "checkpoint/checkpoint.h"
#include "kernels/linear/linear.h"
#include "model/shard_plan.h"

namespace forerun {

// The kernel format of a block format; nothing where kernels have none.
std::optional<WeightFormat> kernel_format(BlockFormat format);

// Whether pack_blocks() takes the part: there is a kernel format, and blocks are not cut.
bool packs_blocks(const RawTensor& tensor, const ModulePart& part);

// The parts of a block as packers take them.
void copy_fields(const BlockFormatInfo& format, const BlockFields& from, GroupedBlock& to);
// The parts of consecutive blocks, from the first one's bytes on.
void unpack_blocks(const BlockFormatInfo& format, const std::byte* from,
                   std::span<GroupedBlock> to);

// Packs a part of a matrix of blocks for which packs_blocks() holds, by as many threads as there
// are cores.
LinearWeight pack_blocks(const RawTensor& tensor, const ModulePart& part);

}  // namespace forerun
