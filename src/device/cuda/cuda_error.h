// CUDA errors as Status. The message names the call, the device and what it was for, in every build
// type. Only files in folders named cuda include CUDA's headers.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::cuda {

// ok for cudaSuccess; otherwise "cuda:1: cudaMalloc: out of memory (cudaErrorMemoryAllocation)
// while allocating ...". Running out of memory is kResourceExhausted, the rest kInternal. Clears
// the runtime's last error, so that a failure that does not stick is reported once.
Status cuda_status(cudaError_t error, std::string_view call, std::string_view doing);

// True if `error` has broken this process's context: nothing but a new process helps (an illegal
// address, a failed assertion in a kernel, a lost device ...).
bool is_sticky(cudaError_t error);

}  // namespace forerun::cuda

// Runs a CUDA runtime call and returns from the enclosing function if it fails. `doing` completes
// the sentence "while ...".
#define FORERUN_CUDA_RETURN_IF_ERROR(call, doing)                                           \
  do {                                                                                      \
    if (const cudaError_t forerun_cuda_error_ = (call); forerun_cuda_error_ != cudaSuccess) \
      return ::forerun::cuda::cuda_status(forerun_cuda_error_, #call, (doing));             \
  } while (false)
