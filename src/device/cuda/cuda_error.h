// Conversion of CUDA errors to Status. In every build type the message names the call, the device
// and the purpose of the call. Only files in folders named cuda include CUDA's headers.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::cuda {

// Returns ok for cudaSuccess; otherwise an error such as "cuda:1: cudaMalloc: out of memory
// (cudaErrorMemoryAllocation) while allocating ...". The code is kResourceExhausted if memory ran
// out, else kInternal. Clears the runtime's last error, so that a non-sticky error is reported
// once.
Status cuda_status(cudaError_t error, std::string_view call, std::string_view doing);

// Returns true if `error` has broken this process's CUDA context (an illegal address, a failed
// assertion in a kernel, a lost device, ...). Only a new process can then use the GPU.
bool is_sticky(cudaError_t error);

}  // namespace forerun::cuda

// Runs a CUDA runtime call, and returns from the enclosing function if the call fails. `doing`
// completes the sentence "while ...".
#define FORERUN_CUDA_RETURN_IF_ERROR(call, doing)                                           \
  do {                                                                                      \
    if (const cudaError_t forerun_cuda_error_ = (call); forerun_cuda_error_ != cudaSuccess) \
      return ::forerun::cuda::cuda_status(forerun_cuda_error_, #call, (doing));             \
  } while (false)
