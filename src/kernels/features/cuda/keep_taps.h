// A kernel that keeps taps on a GPU: it copies hidden rows to places of a store
// (model/cuda/tap_store.h).
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "forerun/status.h"

namespace forerun::cuda {

// A row of a pass that keeps its hidden states, and their place in the store.
struct TapPlaceCuda {
  int32_t row = 0;
  int32_t place = 0;
};

// All pointers are device memory, 16-byte aligned.
struct KeepTapsCallCuda {
  // The Step's data. It holds two int32: at `count_offset` the number of TapPlaceCuda, at most
  // `rows`; at `taps_offset_offset` the offset of their list.
  const std::byte* step = nullptr;
  int32_t count_offset = 0;
  int32_t taps_offset_offset = 0;
  const __nv_bfloat16* hidden = nullptr;  // [rows][hidden_stride]
  int64_t hidden_stride = 0;
  __nv_bfloat16* store = nullptr;  // [places][store_stride]; a row goes to the start of a place
  int64_t store_stride = 0;
  int64_t dim = 0;  // elements of a row; like the strides, a multiple of 8
  int32_t rows = 0;
};

// Submits one dependent launch, which may start early and waits for the stream's previous kernel.
// Fails before launching if the arguments do not fit.
Status keep_taps_cuda(const KeepTapsCallCuda& call, cudaStream_t stream);

// Loads the kernel on the current device. Call it once per device, before any graph is captured.
Status prepare_keep_taps_cuda();

}  // namespace forerun::cuda
