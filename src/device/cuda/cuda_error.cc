#include "device/cuda/cuda_error.h"

namespace forerun::cuda {

Status cuda_status(cudaError_t error, std::string_view call, std::string_view doing) {
  if (error == cudaSuccess) return {};
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) device = -1;
  (void)cudaGetLastError();
  std::string message = device < 0 ? "cuda" : "cuda:" + std::to_string(device);
  message.append(": ").append(call.substr(0, call.find('(')));
  message.append(": ").append(cudaGetErrorString(error));
  message.append(" (").append(cudaGetErrorName(error)).append(") while ").append(doing);
  if (is_sticky(error)) message += "; the process must be restarted to use this GPU again";
  return {
      error == cudaErrorMemoryAllocation ? StatusCode::kResourceExhausted : StatusCode::kInternal,
      std::move(message)};
}

bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
      return true;
    default:
      return false;
  }
}

}  // namespace forerun::cuda
