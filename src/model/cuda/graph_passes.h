// The passes that serving usually runs, so that their graphs are made before the first request.
#pragma once

#include <cstdint>
#include <vector>

#include "model/cuda/shard.h"

namespace forerun::cuda {

// Passes of up to `max_rows` and kMaxGraphRows rows: sequences of one row each and of several, as
// prefixes and as trees, at short and long contexts of up to `max_context` tokens, by the kernels
// that attention's plan gives them. Each comes twice, with all rows wanting logits and with none;
// the latter is a pass without the head, after which a head for any number of rows may follow. In
// ascending order, each once.
std::vector<PassKeyCuda> graph_passes_cuda(const AttentionShapeCuda& shape, int64_t max_context,
                                           int32_t max_rows);

}  // namespace forerun::cuda
