// Descriptions of matrices in device memory for the copy engine of an SM (sm_90 and up), which then
// brings whole boxes of them to shared memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "forerun/status.h"

namespace forerun::cuda {

// A row-major matrix of 16-bit numbers at `data` (device memory, 16-byte aligned), `stride`
// elements from row to row (a multiple of 8), copied in boxes of `box_rows` (at most 256) rows x
// `box_columns` (32 or 64) columns: 64 or 128 bytes a row, whose 16-byte pieces change places by
// the row (CU_TENSOR_MAP_SWIZZLE_64B, _128B). What a box has beyond the matrix becomes zero. Passed
// to a kernel by value, as __grid_constant__; holds no memory. Fails if the driver knows no such
// maps or the arguments do not fit.
Result<CUtensorMap> tensor_map_16_bit(const void* data, int64_t rows, int64_t columns,
                                      int64_t stride, int box_rows, int box_columns);

}  // namespace forerun::cuda
