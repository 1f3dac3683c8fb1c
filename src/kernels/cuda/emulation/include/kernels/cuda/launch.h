// Emulates kernels/cuda/launch.h on the host. A launch returns once its kernel has ended.
#pragma once

#include <cuda_runtime.h>

#include <tuple>
#include <type_traits>

#include "forerun/status.h"
#include "kernels/cuda/emulation/emulation.h"

namespace forerun::cuda {

template <class... Parameters, class... Arguments>
Status launch_in_clusters(void (*kernel)(Parameters...), int cluster_blocks, bool /*dependent*/,
                          dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t /*stream*/,
                          const char* /*doing*/, Arguments... arguments) {
  const std::tuple<std::decay_t<Parameters>...> parameters(arguments...);
  emulation::run(grid, block, static_cast<uint32_t>(cluster_blocks), shared_bytes,
                 [&] { std::apply(kernel, parameters); });
  return {};
}
// Runs blocks one after another, so that their __shared__ variables belong to one block at a time.
template <class... Parameters, class... Arguments>
Status launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
              const char* doing, Arguments... arguments) {
  return launch_in_clusters(kernel, 1, false, grid, block, 0, stream, doing, arguments...);
}
template <class... Parameters, class... Arguments>
Status launch_dependent_clusters(void (*kernel)(Parameters...), int cluster_blocks, dim3 grid,
                                 dim3 block, size_t shared_bytes, cudaStream_t stream,
                                 const char* doing, Arguments... arguments) {
  return launch_in_clusters(kernel, cluster_blocks > 1 ? cluster_blocks : 0, true, grid, block,
                            shared_bytes, stream, doing, arguments...);
}
template <class... Parameters, class... Arguments>
Status launch_dependent(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                        cudaStream_t stream, const char* doing, Arguments... arguments) {
  return launch_dependent_clusters(kernel, 1, grid, block, shared_bytes, stream, doing,
                                   arguments...);
}
// Returns the number of SMs of a small GPU, for short tests.
inline Result<int> multiprocessor_count() { return 12; }
template <class... Parameters>
Status prefer_shared_memory(void (* /*kernel*/)(Parameters...), const char* /*doing*/) {
  return {};
}
template <class... Parameters>
Status raise_shared_memory_limit(void (* /*kernel*/)(Parameters...), int /*bytes*/,
                                 const char* /*doing*/) {
  return {};
}
template <class... Parameters>
Status allow_shared_memory(void (* /*kernel*/)(Parameters...), int /*bytes*/,
                           const char* /*doing*/) {
  return {};
}

}  // namespace forerun::cuda
