// The kernels of a captured pass, layer by layer. It makes graphs that leave out one part of every
// layer: their times tell what that part costs beside its neighbours.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::cuda {

// A repetition in a sequence: blocks of `period` elements, from `first` on.
struct Repetition {
  size_t first = 0;
  size_t period = 0;
};
// The longest block that comes `times` times in a row in `signatures`, as early as possible;
// nullopt if there is none.
std::optional<Repetition> find_repetition(std::span<const std::string> signatures, size_t times);

// A line for each kernel of a captured pass, in order: its name with template arguments, blocks,
// threads a block and bytes of dynamic shared memory. Equal stretches that follow one another, such
// as layers, are written once, behind "N times:". kUnsupported if `graph` is no chain.
Result<std::string> list_kernels(cudaGraph_t graph, int32_t num_layers);

// Names of the parts of a layer, in order: "QKV" (one or more kernels), "attention", "O" and so on.
// A linear layer is named after its place, other parts as their kernels are. `graph` must be a
// chain of kernels in which `num_layers` equal layers follow one another; kUnsupported if it is
// none.
Result<std::vector<std::string>> layer_parts(cudaGraph_t graph, int32_t num_layers);

// Removes part `part` of every layer from `graph` and joins its neighbours as they were joined to
// it, so that the next kernel starts as early as if the part took no time. Results of such a graph
// mean nothing.
Status leave_out_part(cudaGraph_t graph, int32_t num_layers, int32_t part);

}  // namespace forerun::cuda
