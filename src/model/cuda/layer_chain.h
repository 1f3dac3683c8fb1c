// The kernels of a captured pass, layer by layer. Graphs without one part of every layer show the
// cost of that part beside its neighbours.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::cuda {

// A repetition in a sequence: consecutive blocks of `period` elements, from `first` on.
struct Repetition {
  size_t first = 0;
  size_t period = 0;
};
// Returns the longest block that occurs `times` times in a row in `signatures`, as early as
// possible; nullopt if there is none.
std::optional<Repetition> find_repetition(std::span<const std::string> signatures, size_t times);

// Returns one line per kernel of a captured pass, in order: its name with template arguments,
// blocks, threads per block, and bytes of dynamic shared memory. Equal consecutive stretches, such
// as layers, are written once, behind "N times:". Returns kUnsupported if `graph` is no chain.
Result<std::string> list_kernels(cudaGraph_t graph, int32_t num_layers);

// Returns the names of the parts of a layer, in order: "QKV" (one or more kernels), "attention",
// "O" and so on. The name of a linear layer is its role, that of another part its kernel's. Returns
// kUnsupported unless `graph` is a chain of kernels that contains `num_layers` equal layers in a
// row.
Result<std::vector<std::string>> layer_parts(cudaGraph_t graph, int32_t num_layers);

// Removes part `part` of every layer from `graph` and joins its neighbours with the edges that it
// had, so that the next kernel starts as early as if the part took no time. Results of such a graph
// are meaningless.
Status leave_out_part(cudaGraph_t graph, int32_t num_layers, int32_t part);

}  // namespace forerun::cuda
