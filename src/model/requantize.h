// Weights of a kernel format made of floats: for --weights, and for what no kernel reads as it is
// stored. The formats that can be made are floats, int8, and the grouped formats that repack a
// block format, by ggml's encoder where there is one (checkpoint/blocks/encode_blocks.h), else by
// checkpoint/blocks/round_blocks.h. A new block format needs no line here.
//
// Thread rules: the functions may run on many threads at once.
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

// Writes rows [first, first + rows.dim(0)) of a weight as f32. Called by several threads at once.
using FillRows = std::function<void(int64_t first, MatrixView<float> rows)>;
// What views of weights point to.
using OwnedBytes = std::vector<std::unique_ptr<std::byte[]>>;

// Formats to which loaders can requantize, in the order of WeightFormat.
std::span<const WeightFormat> requantizable_formats();

// The number of inputs of a layer must be a multiple of this: the weights of a block, else 1.
int64_t input_multiple(WeightFormat format);

// Makes an [out][in] weight of one of requantizable_formats(), by as many threads as there are
// cores, each of which holds a few rows as f32. `in` is a multiple of input_multiple(). Floats are
// kept in `owned`, which the weight then needs. kUnsupported where a value is not finite or too
// large for f16, which scales and f16 itself have; f32, bf16 and int8 take any value.
Result<LinearWeight> requantize(WeightFormat format, int64_t out, int64_t in, const FillRows& fill,
                                OwnedBytes& owned);

}  // namespace forerun
