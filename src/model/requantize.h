// Conversion of floats to a kernel format, for --weights and for weights that no kernel reads as
// they are stored. Supported are floats, int8, and the grouped formats that repack a block format,
// by ggml's encoder if there is one (checkpoint/blocks/encode_blocks.h), else by
// checkpoint/blocks/round_blocks.h. A new block format needs no change here.
//
// The functions may run on many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/tensor_view.h"
#include "forerun/status.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/weight_format.h"

namespace forerun {

// Writes rows [first, first + rows.dim(0)) of a weight as f32. Several threads call it at once.
using FillRows = std::function<void(int64_t first, MatrixView<float> rows)>;
// The memory that views of weights point to.
using OwnedBytes = std::vector<std::unique_ptr<std::byte[]>>;

// Returns the formats to which loaders can requantize, in the order of WeightFormat.
std::span<const WeightFormat> requantizable_formats();

// Returns a divisor that the number of a layer's inputs must have: the weights per block, else 1.
int64_t input_multiple(WeightFormat format);

// Makes an [out][in] weight of one of requantizable_formats(), on as many threads as there are
// cores, each of which holds a few rows as f32. `in` must be a multiple of input_multiple().
// `owned` receives the floats that the weight points to. Returns kUnsupported if a value is not
// finite or too large for the f16 of scales or weights; f32, bf16 and int8 take any value.
Result<LinearWeight> requantize(WeightFormat format, int64_t out, int64_t in, const FillRows& fill,
                                OwnedBytes& owned);

}  // namespace forerun
