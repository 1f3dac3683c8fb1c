// Where a key's or value's 16-byte pieces lie in the cache and in shared memory. Device code.
#pragma once

#include <cuda_runtime.h>

namespace forerun::cuda {

// Rows (keys or values of one head) lie in panels of 64 dimensions: 128 bytes per row, whose eight
// pieces are in an order that depends on the row, as wgmma and matrix loads want them. A tile of
// the cache has 64 rows a panel.
constexpr int kPanelRowBytes = 128;

// Bytes from the first panel's row to a piece of the row that has number `row` there (only the low
// bits matter); `rows` of a panel.
__device__ __forceinline__ int kv_piece(int piece, int row, int rows = 64) {
  return (piece >> 3) * (rows * kPanelRowBytes) + ((piece ^ row) & 7) * 16;
}

}  // namespace forerun::cuda
