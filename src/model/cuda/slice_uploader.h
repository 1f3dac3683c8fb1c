// Uploads parts of a checkpoint's matrices to a GPU, through page-locked memory and in portions:
// the file is read while the bus carries the previous portion.
//
// Use it from one thread at a time, with the GPU current that it was created for.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"
#include "forerun/status.h"
#include "model/cuda/matrix_slice.h"

namespace forerun::cuda {

class SliceUploader {
 public:
  // `stream` must outlive it.
  static Result<SliceUploader> create(const Stream* stream);

  // Uploads the slice, dense, in the order of the stream. When it returns, the slice's tensor has
  // been read; work submitted next to the stream finds the bytes.
  Status upload(const MatrixSlice& slice, std::byte* to);
  // Uploads to memory of its own, one of kPlaces; valid until something is uploaded to the same
  // place.
  static constexpr size_t kPlaces = 3;
  Result<const std::byte*> bring(const MatrixSlice& slice, size_t place);
  // The same for bytes, which have been read when it returns.
  Result<const std::byte*> bring(std::span<const std::byte> bytes, size_t place);

 private:
  struct Portion {
    PinnedBuffer memory;
    Event copied;
  };
  explicit SliceUploader(const Stream* stream, Portion first, Portion second)
      : stream_(stream), portions_{std::move(first), std::move(second)} {}

  // Makes room for `bytes` bytes in a place.
  Status reserve(size_t bytes, size_t place);

  const Stream* stream_;
  std::array<Portion, 2> portions_;
  size_t next_ = 0;
  std::array<DeviceBuffer, kPlaces> places_;
};

}  // namespace forerun::cuda
