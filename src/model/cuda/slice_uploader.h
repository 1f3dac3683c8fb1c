// An uploader for parts of a checkpoint's matrices. It copies through page-locked memory in
// portions, and reads the file while the bus carries the previous portion.
//
// Only one thread at a time may use it, while the GPU that was current at its creation is current.
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
  // `stream` must outlive the uploader.
  static Result<SliceUploader> create(const Stream* stream);

  // Uploads the slice without gaps, in stream order. The slice's tensor has been read on return;
  // later work of the stream sees the bytes.
  Status upload(const MatrixSlice& slice, std::byte* to);
  // Uploads to memory of the uploader, one of kPlaces; valid until the next upload to the same
  // place.
  static constexpr size_t kPlaces = 3;
  Result<const std::byte*> bring(const MatrixSlice& slice, size_t place);
  // Uploads bytes in the same way; they have been read on return.
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
