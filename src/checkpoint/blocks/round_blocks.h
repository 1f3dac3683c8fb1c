// Rounds floats to any block format, for formats that need no bytes of ggml's own encoder.
//
// Thread rules: pure functions.
#pragma once

#include "checkpoint/blocks/block_fields.h"

namespace forerun {

// Rounds the finite `values` of one block to its parts. For each group, scales (and minima) of
// several sizes are tried, and that with the smallest squared error is kept; then scales and minima
// become f16 and integers, and every value takes the nearest level. Magnitudes are at most 65504.
void round_block(const BlockFormatInfo& format, const float* values, BlockFields& to);

}  // namespace forerun
