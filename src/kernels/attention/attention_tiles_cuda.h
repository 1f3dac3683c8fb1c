// The many-row kernel of attention: AttentionMode::kTiles. Reached through attention_cuda().
#pragma once

#include "kernels/attention/attention_cuda.h"

namespace forerun::cuda {

// Heads of up to 128 dimensions.
Status attention_tiles_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_tiles_cuda();

}  // namespace forerun::cuda
