// Which passes serving is made of, so that their graphs are there before the first request.
#pragma once

#include <cstdint>
#include <vector>

#include "model/cuda/shard.h"

namespace forerun::cuda {

// Passes of up to `most_rows` rows and kMaxGraphRows: sequences of one row each and of several, as
// prefixes and as trees, at short and long contexts up to `most_context` tokens, in the modes that
// attention's plan gives them; each with all rows wanting logits and with none, a pass without the
// head, after which the head of any number of rows may follow. In ascending order, each once.
std::vector<PassKeyCuda> usual_passes_cuda(const AttentionShapeCuda& shape, int64_t most_context,
                                           int32_t most_rows);

}  // namespace forerun::cuda
