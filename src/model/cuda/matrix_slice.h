// A part of a checkpoint's matrix in the shape of a GPU's weight: some rows and columns, padded
// with zeros on all sides. Host memory only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/checkpoint.h"
#include "model/cuda/shard_layout.h"

namespace forerun::cuda {

struct MatrixSlice {
  // A two-dimensional tensor. With `as_bf16`, floats of any format become bf16; other elements are
  // copied. The columns of a tensor of blocks are whole blocks. It must outlive the slice.
  const RawTensor* tensor = nullptr;
  Slice rows, columns;  // `from` lies within the tensor's shape
  bool as_bf16 = false;

  size_t element_bytes() const;
  size_t row_bytes() const { return static_cast<size_t>(columns.total) * element_bytes(); }
  size_t bytes() const { return static_cast<size_t>(rows.total) * row_bytes(); }
  // Copies rows [first, first + count) of the slice to `to`, without gaps.
  void copy_rows(int64_t first, int64_t count, std::byte* to) const;
};

}  // namespace forerun::cuda
