// The kernels of a captured pass, layer by layer: for graphs that differ by one part of every
// layer, whose times tell what that part costs beside its neighbours.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::cuda {

// Where a sequence repeats: `times` blocks of `period` elements, from `first`.
struct Repetition {
  size_t first = 0;
  size_t period = 0;
};
// The longest block that comes `times` times in a row in `signatures`, as early as possible.
// Nothing where there is none.
std::optional<Repetition> find_repetition(std::span<const std::string> signatures, size_t times);

// Names of the parts of a layer in their order: "QKV", "attention", "O" ... (what a linear layer is
// follows from its place), others as their kernels are called. `graph` must be a chain of kernels
// in which `num_layers` equal layers follow one another; kUnsupported where it is none.
Result<std::vector<std::string>> layer_parts(cudaGraph_t graph, int32_t num_layers);

// Takes part `part` of every layer out of `graph`, its neighbours joined as they were to it: what
// follows starts as early as if the part had been nothing. Results of such a graph mean nothing.
Status leave_out_part(cudaGraph_t graph, int32_t num_layers, int32_t part);

}  // namespace forerun::cuda
