// Gate and up of int4 at 17 to 32 rows: the clusters, blocks and order of summation of
// linear_kernel (linear_cuda.cu), products by wgmma. linear_cuda() chooses; not for callers.
#pragma once

#include <cuda_runtime_api.h>

#include "forerun/status.h"
#include "kernels/linear/linear_cuda.h"

namespace forerun::cuda {

struct LinearKernelArgs;  // linear_ring_cuda.h

// As prepare_linear_cuda(), which calls it.
Status prepare_linear_warpgroups();

// Whether the call is the kernel's: gate and up on one GPU, of five tiles a block and more.
bool takes_warpgroups(const LinearPlan& plan, const LinearCall& call);

// Submits one launch. `args`: what linear_kernel would get; its launch's fields are not read.
Status launch_linear_warpgroups(const LinearPlan& plan, const LinearCall& call,
                                const LinearKernelArgs& args, cudaStream_t stream);

}  // namespace forerun::cuda
