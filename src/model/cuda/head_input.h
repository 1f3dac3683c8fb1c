// The input of an EAGLE-3 head's first layer: the embeddings of the rows' tokens beside their
// features, which are projected taps of the target or the head's own. The buffers lie on one GPU.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "checkpoint/model_config.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"
#include "kernels/linear/cuda/linear.h"
#include "model/cuda/decoder_weights.h"
#include "model/cuda/tap_store.h"

namespace forerun::cuda {

class HeadInputCuda {
 public:
  HeadInputCuda() = default;  // for a decoder that is no EAGLE-3 head
  // Creates the buffers on the current device. `target` must outlive the object, and so must `own`;
  // if `own` is null, every row's feature is the target's.
  static Result<HeadInputCuda> create(const ModelConfig& config, const TapStoreCuda* target,
                                      const TapStoreCuda* own);
  static int64_t buffer_bytes(const ModelConfig& config);

  // The destination of the embedding look-up: bf16 [rows][linear_input_stride(hidden)].
  __nv_bfloat16* embedded() const { return embedded_.as<__nv_bfloat16>(); }
  // The normalized input of the first layer's qkv: [rows][linear_input_stride(2 * hidden)].
  const uint16_t* joined() const { return joined_.as<uint16_t>(); }

  struct Call {
    const std::byte* step = nullptr;    // the pass's StepBlockCuda, on the device
    __nv_bfloat16* residual = nullptr;  // output: the residual stream, with the hidden stride
    int32_t rows = 0;
    bool projects_taps = false;  // whether a row's feature comes from the target's taps
    LinearScratchCuda scratch = {};
  };
  // Submits the kernels that follow the embedding look-up.
  Status submit(const ModelConfig& config, const DecoderWeightsCuda& weights, const Call& call,
                const Stream& stream) const;

 private:
  const TapStoreCuda* target_ = nullptr;
  const TapStoreCuda* own_ = nullptr;
  DeviceBuffer embedded_, taps_, projected_, joined_;
};

// Loads this file's kernels on the current device. Call it once per device, before any graph is
// captured.
Status prepare_head_input_cuda();

}  // namespace forerun::cuda
