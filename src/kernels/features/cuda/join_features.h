// A kernel that makes the input of a trained head's first layer: for each row the normalized
// embedding of its token and its normalized feature, side by side, and the residual stream, which
// starts as the feature.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "forerun/status.h"
#include "kernels/cuda/activation_format.h"

namespace forerun::cuda {

// All pointers are device memory, 16-byte aligned. Norms are as in rms_norm/rms_norm.h, with values
// rounded to bf16 wherever they go to the stream.
struct JoinFeaturesCallCuda {
  // The Step's data; at `features_offset_offset` lies the int32 offset of RowFeatureCuda [rows].
  const std::byte* step = nullptr;
  int32_t features_offset_offset = 0;
  // [rows][stride]: embeddings; projected features of the target (null if no row has one); and the
  // output, the residual stream.
  const __nv_bfloat16* embedded = nullptr;
  const __nv_bfloat16* projected = nullptr;
  __nv_bfloat16* stream = nullptr;
  int64_t stride = 0;
  // The head's store, [places][dim]; null if no row's feature is there.
  const __nv_bfloat16* own = nullptr;
  // [dim], the norm for features of the head's store; null for none.
  const float* own_norm = nullptr;
  const float* embedding_norm = nullptr;  // [dim]
  const float* feature_norm = nullptr;    // [dim]
  float eps = 0;
  bool norm_before_residual = false;  // the stream starts as the normalized feature
  uint16_t* joined = nullptr;  // [rows][joined_stride]; the first 2 * dim of a row are written
  int64_t joined_stride = 0;
  ActivationFormat format = ActivationFormat::kBf16;  // format of `joined`
  int64_t dim = 0;                                    // like the strides, a multiple of 8
  int32_t rows = 0;
};

// Submits one dependent launch, which may start early and waits for the stream's previous kernel.
// Fails before launching if the arguments do not fit.
Status join_features_cuda(const JoinFeaturesCallCuda& call, cudaStream_t stream);

// Loads the kernel on the current device. Call it once per device, before any graph is captured.
Status prepare_join_features_cuda();

}  // namespace forerun::cuda
