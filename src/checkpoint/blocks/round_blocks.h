// Rounding of floats to any block format, for uses that do not need the bytes of ggml's own
// encoder.
//
// All functions are pure.
#pragma once

#include "checkpoint/blocks/block_fields.h"

namespace forerun {

// Rounds the finite `values` of one block to its fields. For each group it tries scales (and
// minima) of several sizes and keeps the one with the smallest squared error; then scales and
// minima become f16 and integers, and every value takes the nearest level. Magnitudes are at most
// 65504.
void round_block(const BlockFormatInfo& format, const float* values, BlockFields& to);

}  // namespace forerun
