// Kernel launches. Dependent launches use programmatic dependent launch: the kernel may start
// before the stream's previous kernel has ended, and calls wait_for_previous_kernel() before it
// accesses anything that the previous kernel writes.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "forerun/status.h"

namespace forerun::cuda {

// Launches a grid in clusters of `cluster_blocks` blocks; the grid must be a multiple of it. With
// 1, each block is a cluster and may send to itself as to a peer; with 0 there are no clusters.
// `dependent` makes it a dependent launch. `doing` is the purpose of the launch, for the error
// message.
template <class... Parameters, class... Arguments>
Status launch_in_clusters(void (*kernel)(Parameters...), int cluster_blocks, bool dependent,
                          dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                          const char* doing, Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  if (cluster_blocks > 0) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(cluster_blocks), 1, 1};
  }
  if (dependent) {
    cudaLaunchAttribute& early = attributes[config.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  FORERUN_CUDA_RETURN_IF_ERROR(cudaLaunchKernelEx(&config, kernel, arguments...), doing);
  return {};
}

// Launches a kernel after all work in the stream, without dynamic shared memory.
template <class... Parameters, class... Arguments>
Status launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
              const char* doing, Arguments... arguments) {
  return launch_in_clusters(kernel, 0, /*dependent=*/false, grid, block, 0, stream, doing,
                            arguments...);
}

template <class... Parameters, class... Arguments>
Status launch_dependent_clusters(void (*kernel)(Parameters...), int cluster_blocks, dim3 grid,
                                 dim3 block, size_t shared_bytes, cudaStream_t stream,
                                 const char* doing, Arguments... arguments) {
  return launch_in_clusters(kernel, cluster_blocks > 1 ? cluster_blocks : 0, /*dependent=*/true,
                            grid, block, shared_bytes, stream, doing, arguments...);
}

template <class... Parameters, class... Arguments>
Status launch_dependent(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                        cudaStream_t stream, const char* doing, Arguments... arguments) {
  return launch_dependent_clusters(kernel, 1, grid, block, shared_bytes, stream, doing,
                                   arguments...);
}

// Returns the number of SMs of the current GPU.
inline Result<int> multiprocessor_count() {
  int device = 0;
  int count = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device), "asking for the current GPU");
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
      "asking for the number of multiprocessors");
  return count;
}

// Makes a kernel ask for the largest shared memory. An SM can change its split between L1 and
// shared memory only while it is empty, so all kernels that should overlap with linear layers must
// ask for the same split. Call it once per kernel and device.
template <class... Parameters>
Status prefer_shared_memory(void (*kernel)(Parameters...), const char* doing) {
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                           cudaSharedmemCarveoutMaxShared),
      doing);
  return {};
}

// Allows a kernel up to `bytes` of dynamic shared memory per block.
template <class... Parameters>
Status raise_shared_memory_limit(void (*kernel)(Parameters...), int bytes, const char* doing) {
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), doing);
  return {};
}

// Does both of the above.
template <class... Parameters>
Status allow_shared_memory(void (*kernel)(Parameters...), int bytes, const char* doing) {
  FORERUN_RETURN_IF_ERROR(raise_shared_memory_limit(kernel, bytes, doing));
  return prefer_shared_memory(kernel, doing);
}

}  // namespace forerun::cuda
