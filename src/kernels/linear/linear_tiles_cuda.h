// Linear layers for many rows (prefill, batches): tiles of 128 outputs x 128 rows of activations,
// the same bits a row as linear_kernel (linear_cuda.cu). linear_cuda() chooses; not for callers.
#pragma once

#include <cuda_runtime_api.h>

#include "forerun/status.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/linear_ring_cuda.h"

namespace forerun::cuda {

// As prepare_linear_cuda(), which calls it.
Status prepare_linear_tiles();

// Submits one launch. `args`: what linear_kernel would get; its launch's fields are not read.
Status launch_linear_tiles(const LinearPlan& plan, const LinearCall& call,
                           const LinearKernelArgs& args, cudaStream_t stream);

}  // namespace forerun::cuda
