// A list of the passes that serving usually runs, so that the decoder captures their graphs before
// the first request.
#pragma once

#include <cstdint>
#include <vector>

#include "model/cuda/shard.h"

namespace forerun::cuda {

// Returns the keys of passes of up to `max_rows` and kMaxGraphRows rows: sequences with one row and
// with several, as prefixes and as trees, at short and long contexts of up to `max_context` tokens,
// for the kernels that attention's plan chooses. Each comes with logits for all rows and for none;
// the latter is a pass without the head, after which a head for any number of rows may follow. The
// keys are unique and ascending.
std::vector<PassKeyCuda> graph_passes_cuda(const AttentionShapeCuda& shape, int64_t max_context,
                                           int32_t max_rows);

}  // namespace forerun::cuda
