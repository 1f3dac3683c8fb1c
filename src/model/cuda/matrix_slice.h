// A part of a checkpoint's matrix as a GPU's weight needs it: some rows and columns, padded with
// zeros on all sides. Host memory only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/checkpoint.h"
#include "model/cuda/shard_layout.h"

namespace forerun::cuda {

struct MatrixSlice {
  // Two-dimensional. With `as_bf16` floats of any format become bf16; everything else is taken as
  // it is. A tensor of blocks has blocks in place of columns then. Must outlive the slice.
  const RawTensor* tensor = nullptr;
  Slice rows, columns;  // `from` within the tensor's shape
  bool as_bf16 = false;

  size_t element_bytes() const;
  size_t row_bytes() const { return static_cast<size_t>(columns.total) * element_bytes(); }
  size_t bytes() const { return static_cast<size_t>(rows.total) * row_bytes(); }
  // Copies rows [first, first + count) of the slice, dense, to `to`.
  void copy_rows(int64_t first, int64_t count, std::byte* to) const;
};

}  // namespace forerun::cuda
