// Where a key's or value's 16-byte pieces lie inside their row of the cache. Device code.
#pragma once

#include <cuda_runtime.h>

namespace forerun::cuda {

// Place of a piece in the row of `slot` (of a tile, or physical: only the low bits matter). Rows 2i
// and 2i + 1 fall into different halves of 128 bytes, and 8 rows into 8 different places, so that
// neither reading pairs of rows nor columns of 8 rows meets a bank twice.
__device__ __forceinline__ int kv_piece(int piece, int slot, int dim) {
  const int mixed = (slot & 1) << 2 | (slot >> 1 & 3);
  return piece ^ (mixed & (dim / 8 - 1));
}

}  // namespace forerun::cuda
