// Swizzled layout of keys and values in the cache and in shared memory. Device code.
#pragma once

#include <cuda_runtime.h>

namespace forerun::cuda {

// Rows (keys or values of one head) lie in panels of 64 dimensions: 128 bytes per row, whose eight
// 16-byte pieces are permuted by the row number, as wgmma and ldmatrix require. A tile of the cache
// has 64 rows per panel.
constexpr int kPanelRowBytes = 128;

// Returns the byte offset of a piece from the start of its row in the first panel. `row` is the
// row's number in the panel (only the low bits matter); `rows` is the number of rows per panel.
__device__ __forceinline__ int kv_piece(int piece, int row, int rows = 64) {
  return (piece >> 3) * (rows * kPanelRowBytes) + ((piece ^ row) & 7) * 16;
}

}  // namespace forerun::cuda
