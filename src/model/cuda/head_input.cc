#include "model/cuda/head_input.h"

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/features/cuda/gather_taps.h"
#include "kernels/features/cuda/join_features.h"
#include "model/cuda/step_block.h"

namespace forerun::cuda {
namespace {

constexpr auto kFeaturesOffsetOffset =
    static_cast<int32_t>(offsetof(StepHeaderCuda, features_offset));

// Returns the bytes of the largest pass's rows of `width` 16-bit values.
size_t rows_of(int64_t width) {
  return static_cast<size_t>(kMaxPassRows * linear_input_stride(width, 1)) * sizeof(uint16_t);
}

Result<DeviceBuffer> cleared(size_t bytes) {
  FORERUN_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                           DeviceBuffer::allocate(bytes, "a trained head's input"));
  FORERUN_CUDA_RETURN_IF_ERROR(cudaMemset(buffer.data(), 0, bytes), "clearing buffers");
  return buffer;
}

// Returns the number of tap values that each norm spans.
int64_t norm_width(const Eagle3Config& head) {
  return head.norm_of_taps == Eagle3Config::NormOfTaps::kEach ? head.target_hidden_size
                                                              : head.taps_width();
}

}  // namespace

Status prepare_head_input_cuda() {
  FORERUN_RETURN_IF_ERROR(prepare_gather_taps_cuda());
  return prepare_join_features_cuda();
}

int64_t HeadInputCuda::buffer_bytes(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  return static_cast<int64_t>(2 * rows_of(hidden) + rows_of(2 * hidden) +
                              rows_of(config.eagle3->taps_width()));
}

Result<HeadInputCuda> HeadInputCuda::create(const ModelConfig& config, const TapStoreCuda* target,
                                            const TapStoreCuda* own) {
  HeadInputCuda input;
  input.target_ = target;
  input.own_ = own;
  const int64_t hidden = config.hidden_size;
  FORERUN_ASSIGN_OR_RETURN(input.embedded_, cleared(rows_of(hidden)));
  FORERUN_ASSIGN_OR_RETURN(input.projected_, cleared(rows_of(hidden)));
  FORERUN_ASSIGN_OR_RETURN(input.joined_, cleared(rows_of(2 * hidden)));
  FORERUN_ASSIGN_OR_RETURN(input.taps_, cleared(rows_of(config.eagle3->taps_width())));
  return input;
}

Status HeadInputCuda::submit(const ModelConfig& config, const DecoderWeightsCuda& weights,
                             const Call& call, const Stream& stream) const {
  const Eagle3Config& head = *config.eagle3;
  const LayerWeightsCuda& layer = weights.layers.front();
  const int64_t stride = linear_input_stride(config.hidden_size, call.rows);
  const int64_t taps_stride = linear_input_stride(head.taps_width(), call.rows);
  if (call.projects_taps) {
    const LinearFormat format = weights.tap_projection.plan().format;
    FORERUN_RETURN_IF_ERROR(gather_taps_cuda({.step = call.step,
                                              .features_offset_offset = kFeaturesOffsetOffset,
                                              .store = target_->data(),
                                              .width = head.taps_width(),
                                              .norms = weights.tap_norms.as<float>(),
                                              .norm_width = norm_width(head),
                                              .eps = config.rms_norm_eps,
                                              .output = taps_.as<uint16_t>(),
                                              .output_stride = taps_stride,
                                              .format = linear_input_format(format),
                                              .rows = call.rows},
                                             stream.get()));
    FORERUN_RETURN_IF_ERROR(linear_cuda(weights.tap_projection,
                                        {.input = taps_.as<uint16_t>(),
                                         .input_stride = taps_stride,
                                         .output = projected_.as<uint16_t>(),
                                         .output_stride = stride,
                                         .rows = call.rows,
                                         .scratch = call.scratch},
                                        stream.get()));
  }
  return join_features_cuda(
      {.step = call.step,
       .features_offset_offset = kFeaturesOffsetOffset,
       .embedded = embedded(),
       .projected = projected_.as<__nv_bfloat16>(),
       .stream = call.residual,
       .stride = stride,
       .own = own_ == nullptr ? nullptr : own_->data(),
       .own_norm = head.feeds_back_normalized ? weights.final_norm.as<float>() : nullptr,
       .embedding_norm = layer.input_norm.as<float>(),
       .feature_norm = layer.hidden_norm.as<float>(),
       .eps = config.rms_norm_eps,
       .norm_before_residual = head.norm_before_residual,
       .joined = joined_.as<uint16_t>(),
       .joined_stride = linear_input_stride(2 * int64_t{config.hidden_size}, call.rows),
       .format = layer.qkv.input_format(),
       .dim = config.hidden_size,
       .rows = call.rows},
      stream.get());
}

}  // namespace forerun::cuda
