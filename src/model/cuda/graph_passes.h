// The passes that serving usually runs, so that their graphs are made before the first request.
#pragma once

#include <cstdint>
#include <vector>

#include "model/cuda/shard.h"

namespace forerun::cuda {

// Passes of up to `most_rows` and kMaxGraphRows rows: sequences of one row each and of several, as
// prefixes and as trees, at short and long contexts of up to `most_context` tokens, in the modes
// that attention's plan gives them. Each comes twice, with all rows wanting logits and with none;
// the latter is a pass without the head, after which a head for any number of rows may follow. In
// ascending order, each once.
std::vector<PassKeyCuda> graph_passes_cuda(const AttentionShapeCuda& shape, int64_t most_context,
                                           int32_t most_rows);

}  // namespace forerun::cuda
