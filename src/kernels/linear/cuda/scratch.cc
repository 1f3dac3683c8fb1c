#include "kernels/linear/cuda/scratch.h"

#include <cuda_runtime_api.h>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"

namespace forerun::cuda {

Result<LinearScratchBuffer> LinearScratchBuffer::allocate() {
  LinearScratchBuffer scratch;
  FORERUN_ASSIGN_OR_RETURN(scratch.data_,
                           DeviceBuffer::allocate(kBytes, "parts of sums of linear layers"));
  FORERUN_RETURN_IF_ERROR(scratch.clear_counters());
  return Result<LinearScratchBuffer>(std::move(scratch));
}

LinearScratchCuda LinearScratchBuffer::view(uint32_t* failed) const {
  std::byte* const group_sums = data_.data() + kLinearPieceBytes;
  std::byte* const scales = group_sums + kGroupSumsBytes;
  return {.sums = data_.as<float>(),
          .inverse_rms = reinterpret_cast<float*>(scales),
          .group_sums = group_sums,
          .arrivals = reinterpret_cast<uint32_t*>(scales + kMaxLinearRows * sizeof(float)),
          .failed = failed};
}

Status LinearScratchBuffer::clear_counters() const {
  FORERUN_CUDA_RETURN_IF_ERROR(cudaMemset(view(nullptr).arrivals, 0, kCounterBytes),
                               "clearing counters of linear layers");
  // The kernels that use them next run in streams that do not wait for the default stream.
  FORERUN_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr),
                               "clearing counters of linear layers");
  return {};
}

}  // namespace forerun::cuda
