// Tensor maps for TMA (sm_90 and up), which describe matrices in device memory so that TMA can copy
// whole boxes of them to shared memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "forerun/status.h"

namespace forerun::cuda {

// Returns the map of a row-major matrix of 16-bit numbers at `data` (device memory, 16-byte
// aligned) with `stride` elements from row to row (a multiple of 8). Boxes have `box_rows` (at most
// 256) rows x `box_columns` (32 or 64) columns. A row of a box is 64 or 128 bytes, swizzled in
// 16-byte pieces (CU_TENSOR_MAP_SWIZZLE_64B, _128B). Box elements outside the matrix become zero.
// Kernels take the map by value, as __grid_constant__; it owns no memory. Fails if the driver has
// no tensor maps or the arguments do not fit.
Result<CUtensorMap> tensor_map_16_bit(const void* data, int64_t rows, int64_t columns,
                                      int64_t stride, int box_rows, int box_columns);

}  // namespace forerun::cuda
