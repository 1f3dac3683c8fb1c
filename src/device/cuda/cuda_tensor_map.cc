#include "device/cuda/cuda_tensor_map.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <string>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"

namespace forerun::cuda {
namespace {

struct Encoder {
  decltype(&cuTensorMapEncodeTiled) encode;
};

// Looks up the driver's function through the runtime, so that programs start without a driver.
Result<Encoder> find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                                12000, cudaEnableDefault, &found),
                               "looking for tensor maps in the driver");
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    return Status(StatusCode::kUnsupported,
                  "the GPU's driver has no tensor maps: it is older than "
                  "CUDA 12.0");
  }
  return Encoder{reinterpret_cast<decltype(Encoder::encode)>(function)};
}

}  // namespace

Result<CUtensorMap> tensor_map_16_bit(const void* data, int64_t rows, int64_t columns,
                                      int64_t stride, int box_rows, int box_columns) {
  static std::atomic<decltype(Encoder::encode)> found = nullptr;
  if (found == nullptr) {
    FORERUN_ASSIGN_OR_RETURN(const Encoder encoder, find_encoder());
    found = encoder.encode;
  }
  CUtensorMap map = {};
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride_bytes[1] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(box_columns),
                             static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result =
      found.load()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(data), sizes,
                   stride_bytes, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   box_columns == 32 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return Status(StatusCode::kInvalidArgument,
                  "a tensor map of " + std::to_string(rows) + " x " + std::to_string(columns) +
                      " (stride " + std::to_string(stride) + ", boxes of " +
                      std::to_string(box_rows) + " x " + std::to_string(box_columns) +
                      ") was refused by the driver: error " + std::to_string(result));
  }
  return map;
}

}  // namespace forerun::cuda
