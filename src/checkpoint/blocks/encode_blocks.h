// Encoders of the block formats Q8_0, Q4_0 and Q4_1.
//
// All functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/blocks/block_format.h"

namespace forerun {

// Encodes count * weights finite floats to `count` consecutive blocks with the same bytes as ggml's
// reference. `to` needs no alignment. A scale beyond f16 becomes infinite, as in the reference.
//
// The reference's bytes depend on the machine in three cases, for which this encoder fixes them. A
// quantized value becomes the lowest one (0 in Q8_0) if the value divided by the scale is not
// finite, because the block's scale is too small or its range too large. Q4_1's minimum has the
// sign of the first zero if zeros of both signs are the smallest values. A block with NaN or
// infinity gives some valid block.
using EncodeBlocks = void (*)(const float* from, int64_t count, std::byte* to);

// Returns the format's encoder, or null for all formats but Q8_0, Q4_0 and Q4_1.
EncodeBlocks block_encoder(BlockFormat format);

}  // namespace forerun
