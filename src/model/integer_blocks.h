// Integers of a checkpoint's layouts (checkpoint/layouts) as the blocks that kernels on GPUs pack
// (kernels/linear/cuda/stored_blocks.h): 32 inputs each, with their scale and zero point. No value
// changes. Host memory only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "checkpoint/layouts/weight_parts.h"
#include "forerun/status.h"
#include "kernels/linear/unit_formats.h"
#include "model/shard_plan.h"

namespace forerun {

// The format in which GPUs hold every weight of a part exactly:
//
//   int4        4 bits, groups of multiples of 128, zeros from 0 to 15
//   q4_0        4 bits, groups of multiples of 32, all zeros in the middle
//   int4_zeros  4 bits, groups of multiples of 32
//   q8_0        8 bits, groups of multiples of 32, all zeros in the middle
//
// Nothing for others, for scales that are no f16, for inputs that are not whole units, and for
// those of a group that lie apart (GPTQ's desc_act): loaders round such parts.
std::optional<cuda::LinearFormat> gpu_integer_format(const WeightParts& parts,
                                                     const ModulePart& part);

// Bytes of an output of `ins` inputs in blocks for the format.
int64_t integer_row_bytes(cuda::LinearFormat format, int64_t ins);

// Fills `rows` [outputs of the part][integer_row_bytes()] by as many threads as there are cores.
// kCorrupt where a scale is no number or a zero is not in 0 .. 2^bits.
Status make_integer_blocks(const WeightParts& parts, const ModulePart& part,
                           cuda::LinearFormat format, std::span<std::byte> rows);

}  // namespace forerun
