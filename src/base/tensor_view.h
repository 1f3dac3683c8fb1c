// A typed, shaped view of memory that another object owns. Row-major; the last dimension is
// contiguous; the stride of the first dimension may exceed the product of the others (a slice of a
// wider tensor).
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace forerun {

template <class T, size_t kRank>
class TensorView {
 public:
  TensorView() = default;
  // Makes a view of contiguous memory.
  TensorView(T* data, std::array<int64_t, kRank> shape) : data_(data), shape_(shape) {
    outer_stride_ = 1;
    for (size_t dim = 1; dim < kRank; ++dim) outer_stride_ *= shape_[dim];
  }
  // `outer_stride`: number of elements from one index of the first dimension to the next.
  TensorView(T* data, std::array<int64_t, kRank> shape, int64_t outer_stride)
      : data_(data), shape_(shape), outer_stride_(outer_stride) {}
  // A view of T converts to a view of const T.
  operator TensorView<const T, kRank>() const { return {data_, shape_, outer_stride_}; }

  T* data() const { return data_; }
  int64_t dim(size_t index) const { return shape_[index]; }
  const std::array<int64_t, kRank>& shape() const { return shape_; }
  int64_t outer_stride() const { return outer_stride_; }
  int64_t size() const {
    int64_t count = 1;
    for (int64_t extent : shape_) count *= extent;
    return count;
  }
  // Returns the contiguous memory of one index of the first dimension.
  T* row(int64_t index) const {
    assert(index >= 0 && index < shape_[0]);
    return data_ + index * outer_stride_;
  }

 private:
  T* data_ = nullptr;
  std::array<int64_t, kRank> shape_{};
  int64_t outer_stride_ = 0;
};

template <class T>
using MatrixView = TensorView<T, 2>;

}  // namespace forerun
