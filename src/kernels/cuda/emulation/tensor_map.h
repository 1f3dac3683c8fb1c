// Tensor maps of emulated kernels (device/cuda/cuda_tensor_map.h). They hold the description of the
// matrix in plain fields, since CUDA's format is opaque.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace forerun::cuda::emulation {

struct TensorMap {
  const uint16_t* data;
  int64_t rows, columns, stride;
  int box_rows, box_columns;
};
TensorMap tensor_map_of(const CUtensorMap& map);

// Returns the swizzled address of a byte, for rows of 64 or 128 bytes.
inline uint32_t swizzled(uint32_t address, uint32_t row_bytes) {
  return address ^ (address >> 7 & (row_bytes == 128 ? 7u : 3u)) << 4;
}

}  // namespace forerun::cuda::emulation
