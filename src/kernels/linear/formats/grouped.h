// Functions for grouped formats (kernels/linear/formats/grouped_formats.h) that are the same on
// every CPU.
#pragma once

#include "kernels/linear/formats/grouped_formats.h"
#include "kernels/linear/linear_weight.h"

namespace forerun {

bool is_grouped(WeightFormat format);
// Returns the entry of a format that is_grouped().
const GroupedFormat& grouped_format(WeightFormat format);

// Writes all `in` weights of output channel `out`, with the roundings of the formula of
// grouped_formats.h.
void dequantize_grouped(const GroupedFormat& format, const LinearWeight::Storage& storage,
                        int64_t out, int64_t in, float* row);

}  // namespace forerun
