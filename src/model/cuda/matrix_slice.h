// A part of a checkpoint's matrix as a GPU's weight wants it: some rows and columns, in a frame of
// zeros. Host memory only.
//
// Thread rules: const methods may be called from many threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/checkpoint.h"
#include "model/cuda/shard_layout.h"

namespace forerun::cuda {

struct MatrixSlice {
  // Two-dimensional; floats of any format become bf16 where `as_bf16`, everything else is taken
  // as it is. Must outlive the slice.
  const RawTensor* tensor = nullptr;
  Slice rows, columns;  // `from` within the tensor's shape
  bool as_bf16 = false;

  size_t element_bytes() const;
  size_t row_bytes() const { return static_cast<size_t>(columns.total) * element_bytes(); }
  size_t bytes() const { return static_cast<size_t>(rows.total) * row_bytes(); }
  // Rows [first, first + count) of the slice, dense, to `to`.
  void copy_rows(int64_t first, int64_t count, std::byte* to) const;
};

}  // namespace forerun::cuda
