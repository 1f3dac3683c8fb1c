// A kernel that gathers the target's taps of a trained head's rows, normalized if the head has such
// norms, as the input of their projection (fc).
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "forerun/status.h"
#include "kernels/cuda/activation_format.h"

namespace forerun::cuda {

// All pointers are device memory, 16-byte aligned.
struct GatherTapsCallCuda {
  // The Step's data; at `features_offset_offset` lies the int32 offset of RowFeatureCuda [rows].
  const std::byte* step = nullptr;
  int32_t features_offset_offset = 0;
  const __nv_bfloat16* store = nullptr;  // the target's store, [places][width]
  int64_t width = 0;                     // values of all taps of a place, a multiple of 8
  // [width], the weights of the norms, each over `norm_width` values; null for no norm.
  const float* norms = nullptr;
  int64_t norm_width = 0;  // divides `width`; a multiple of 8
  float eps = 0;
  // [rows][output_stride]; rows with other features keep their contents.
  uint16_t* output = nullptr;
  int64_t output_stride = 0;
  ActivationFormat format = ActivationFormat::kBf16;
  int32_t rows = 0;
};

// Submits one dependent launch, which may start early and waits for the stream's previous kernel.
// Fails before launching if the arguments do not fit.
Status gather_taps_cuda(const GatherTapsCallCuda& call, cudaStream_t stream);

// Loads the kernel on the current device. Call it once per device, before any graph is captured.
Status prepare_gather_taps_cuda();

}  // namespace forerun::cuda
