// Each block takes a row. A thread keeps to its own columns, so it can read its writes to the
// stream without a barrier.
#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/features/cuda/join_features.h"
#include "kernels/features/cuda/row_features.h"
#include "kernels/features/cuda/row_sums.h"

namespace forerun::cuda {
namespace {

__device__ __forceinline__ RowFeatureCuda feature_of_row(const JoinFeaturesCallCuda& call) {
  const int32_t offset = *reinterpret_cast<const int32_t*>(call.step + call.features_offset_offset);
  return reinterpret_cast<const RowFeatureCuda*>(call.step + offset)[blockIdx.x];
}

// Writes the row's feature to the stream, normalized first if it is the head's own and there is
// such a norm. Returns its sum of squares.
__device__ __forceinline__ float start_stream(const JoinFeaturesCallCuda& call, uint4* stream) {
  const RowFeatureCuda feature = feature_of_row(call);
  const bool is_own = feature.source == RowFeatureCuda::kOwn;
  const auto* const from = reinterpret_cast<const uint4*>(
      is_own ? call.own + feature.place * call.dim : call.projected + blockIdx.x * call.stride);
  const int64_t vectors = call.dim / 8;
  float squares = 0;
  for (int64_t i = threadIdx.x; i < vectors; i += kRowThreads) {
    const uint4 x = feature.source == RowFeatureCuda::kNone ? make_uint4(0, 0, 0, 0) : from[i];
    stream[i] = x;
    squares += widen(x).squares();
  }
  squares = sum_over_row(squares);
  if (!is_own || call.own_norm == nullptr) return squares;
  const float scale = inverse_rms(squares, call.dim, call.eps);
  squares = 0;
  for (int64_t i = threadIdx.x; i < vectors; i += kRowThreads) {
    const uint4 x =
        widen(stream[i]).normed(scale, call.own_norm + i * 8).packed(ActivationFormat::kBf16);
    stream[i] = x;
    squares += widen(x).squares();
  }
  return sum_over_row(squares);
}

__global__ void __launch_bounds__(kRowThreads)
    join_features_kernel(const __grid_constant__ JoinFeaturesCallCuda call) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  launch_dependents();
  wait_for_previous_kernel();
#endif
  const int64_t vectors = call.dim / 8;
  auto* const stream = reinterpret_cast<uint4*>(call.stream + blockIdx.x * call.stride);
  const auto* const embedded =
      reinterpret_cast<const uint4*>(call.embedded + blockIdx.x * call.stride);
  auto* const joined = reinterpret_cast<uint4*>(call.joined + blockIdx.x * call.joined_stride);
  const float feature_squares = start_stream(call, stream);
  float squares = 0;
  for (int64_t i = threadIdx.x; i < vectors; i += kRowThreads) {
    squares += widen(embedded[i]).squares();
  }
  const float embedding_scale = inverse_rms(sum_over_row(squares), call.dim, call.eps);
  const float feature_scale = inverse_rms(feature_squares, call.dim, call.eps);
  for (int64_t i = threadIdx.x; i < vectors; i += kRowThreads) {
    joined[i] =
        widen(embedded[i]).normed(embedding_scale, call.embedding_norm + i * 8).packed(call.format);
    const RowVector feature = widen(stream[i]).normed(feature_scale, call.feature_norm + i * 8);
    joined[vectors + i] = feature.packed(call.format);
    if (call.norm_before_residual) stream[i] = feature.packed(ActivationFormat::kBf16);
  }
}

}  // namespace

Status prepare_join_features_cuda() {
  return prefer_shared_memory(join_features_kernel, "loading the kernel that joins features");
}

Status join_features_cuda(const JoinFeaturesCallCuda& call, cudaStream_t stream) {
  const bool fits = call.rows > 0 && call.dim > 0 && call.dim % 8 == 0 && call.stride >= call.dim &&
                    call.stride % 8 == 0 && call.joined_stride >= 2 * call.dim &&
                    call.joined_stride % 8 == 0;
  if (!fits || call.step == nullptr || call.embedded == nullptr || call.stream == nullptr ||
      call.embedding_norm == nullptr || call.feature_norm == nullptr || call.joined == nullptr) {
    return {StatusCode::kInvalidArgument,
            "joining features on a GPU: " + std::to_string(call.rows) + " rows of " +
                std::to_string(call.dim) +
                "; accepted: at least 1 row, a dim and strides that are multiples of 8, strides "
                "that hold a row, and the pointers of embeddings, stream, norms and output"};
  }
  return launch_dependent(join_features_kernel, dim3(static_cast<unsigned>(call.rows)),
                          dim3(kRowThreads), kRowSumBytes, stream, "joining features", call);
}

}  // namespace forerun::cuda
