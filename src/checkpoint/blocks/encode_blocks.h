// Encoders of the block formats Q8_0, Q4_0 and Q4_1.
//
// Thread rules: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/blocks/block_format.h"

namespace forerun {

// Encodes count * weights finite floats to `count` consecutive blocks, byte for byte as ggml's
// reference does. `to` needs no alignment. A scale beyond f16 becomes infinite, as in the
// reference.
//
// The reference's bytes depend on the machine in three cases. Here, a quantized value becomes the
// lowest one (0 in Q8_0) where the block's scale is so small, or its range so large, that the value
// divided by the scale is not finite; Q4_1's minimum has the sign of the first zero where zeros of
// both signs are the smallest values; a block with NaN or infinity gives some valid block.
using EncodeBlocks = void (*)(const float* from, int64_t count, std::byte* to);

// Null where the format has no encoder: all but Q8_0, Q4_0 and Q4_1.
EncodeBlocks block_encoder(BlockFormat format);

}  // namespace forerun
