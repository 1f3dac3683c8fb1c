// The kernels of linear_cuda.cu for their launches (linear_launch_cuda.cu).
#pragma once

#include "kernels/linear/linear_plan_cuda.h"
#include "kernels/linear/linear_ring_cuda.h"

namespace forerun::cuda {

struct LinearVariant {
  LinearFormat format;
  int row_blocks;  // 1, 2 or 4
  LinearEpilogue epilogue;
  TileSchedule schedule;  // kManyWarps, kSlicesInOneWarp: of int4 only, the latter of 4 row blocks
};
using LinearKernel = void (*)(LinearKernelArgs);
LinearKernel linear_kernel_for(const LinearVariant& variant);

}  // namespace forerun::cuda
