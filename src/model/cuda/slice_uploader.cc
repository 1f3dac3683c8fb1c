#include "model/cuda/slice_uploader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"

namespace forerun::cuda {
namespace {

constexpr size_t kPortionBytes = size_t{8} << 20;

}  // namespace

Result<SliceUploader> SliceUploader::create(const Stream* stream) {
  const auto portion = []() -> Result<Portion> {
    FORERUN_ASSIGN_OR_RETURN(PinnedBuffer memory,
                             PinnedBuffer::allocate(kPortionBytes, "the upload of weights"));
    FORERUN_ASSIGN_OR_RETURN(Event copied, Event::create());
    return Portion{std::move(memory), std::move(copied)};
  };
  FORERUN_ASSIGN_OR_RETURN(Portion first, portion());
  FORERUN_ASSIGN_OR_RETURN(Portion second, portion());
  return SliceUploader(stream, std::move(first), std::move(second));
}

Status SliceUploader::upload(const MatrixSlice& slice, std::byte* to) {
  const size_t row_bytes = slice.row_bytes();
  if (slice.bytes() == 0) return {};
  if (row_bytes > kPortionBytes) {
    return {StatusCode::kUnsupported, "a row of a weight of " + std::to_string(row_bytes) +
                                          " bytes; accepted: at most " +
                                          std::to_string(kPortionBytes)};
  }
  const auto max_rows = static_cast<int64_t>(kPortionBytes / row_bytes);
  for (int64_t first = 0; first < slice.rows.total; first += max_rows) {
    const int64_t rows = std::min(max_rows, slice.rows.total - first);
    Portion& portion = portions_[next_];
    next_ = 1 - next_;
    FORERUN_RETURN_IF_ERROR(portion.copied.synchronize());
    slice.copy_rows(first, rows, portion.memory.data());
    FORERUN_CUDA_RETURN_IF_ERROR(
        cudaMemcpyAsync(to + static_cast<size_t>(first) * row_bytes, portion.memory.data(),
                        static_cast<size_t>(rows) * row_bytes, cudaMemcpyHostToDevice,
                        stream_->get()),
        "uploading weights");
    FORERUN_RETURN_IF_ERROR(portion.copied.record(*stream_));
  }
  return {};
}

Status SliceUploader::reserve(size_t bytes, size_t place) {
  DeviceBuffer& buffer = places_[place];
  if (buffer.bytes() >= bytes) return {};
  FORERUN_RETURN_IF_ERROR(stream_->synchronize());  // the place's previous contents have been used
  buffer = DeviceBuffer();
  FORERUN_ASSIGN_OR_RETURN(buffer, DeviceBuffer::allocate(bytes, "a tensor to be converted"));
  return {};
}

Result<const std::byte*> SliceUploader::bring(const MatrixSlice& slice, size_t place) {
  FORERUN_RETURN_IF_ERROR(reserve(slice.bytes(), place));
  FORERUN_RETURN_IF_ERROR(upload(slice, places_[place].data()));
  return static_cast<const std::byte*>(places_[place].data());
}

Result<const std::byte*> SliceUploader::bring(std::span<const std::byte> bytes, size_t place) {
  FORERUN_RETURN_IF_ERROR(reserve(bytes.size(), place));
  for (size_t first = 0; first < bytes.size(); first += kPortionBytes) {
    const size_t count = std::min(kPortionBytes, bytes.size() - first);
    Portion& portion = portions_[next_];
    next_ = 1 - next_;
    FORERUN_RETURN_IF_ERROR(portion.copied.synchronize());
    std::memcpy(portion.memory.data(), bytes.data() + first, count);
    FORERUN_CUDA_RETURN_IF_ERROR(
        cudaMemcpyAsync(places_[place].data() + first, portion.memory.data(), count,
                        cudaMemcpyHostToDevice, stream_->get()),
        "uploading weights");
    FORERUN_RETURN_IF_ERROR(portion.copied.record(*stream_));
  }
  return static_cast<const std::byte*>(places_[place].data());
}

}  // namespace forerun::cuda
