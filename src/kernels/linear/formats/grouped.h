// Grouped formats (kernels/linear/formats/grouped_formats.h) for code that is the same on every
// processor.
#pragma once

#include "kernels/linear/formats/grouped_formats.h"
#include "kernels/linear/linear_weight.h"

namespace forerun {

bool is_grouped(WeightFormat format);
// The line of a format that is_grouped().
const GroupedFormat& grouped_format(WeightFormat format);

// Writes all `in` weights of output channel `out`, as the formula of grouped_formats.h rounds them.
void dequantize_grouped(const GroupedFormat& format, const LinearWeight::Storage& storage,
                        int64_t out, int64_t in, float* row);

}  // namespace forerun
