#include "device/cuda/cuda_memory.h"

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"

namespace forerun::cuda {
namespace {

std::string in_mib(size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

Status check_range(size_t size, size_t offset_bytes, size_t capacity, const char* what) {
  if (offset_bytes <= capacity && size <= capacity - offset_bytes) return {};
  return {StatusCode::kInvalidArgument, std::string(what) + " of " + std::to_string(size) +
                                            " bytes at offset " + std::to_string(offset_bytes) +
                                            " exceeds a device buffer of " +
                                            std::to_string(capacity) + " bytes"};
}

}  // namespace

Result<DeviceBuffer> DeviceBuffer::allocate(size_t bytes, const char* purpose) {
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  void* data = nullptr;
  if (const cudaError_t error = cudaMalloc(&data, bytes); error != cudaSuccess) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    std::string doing = "allocating " + in_mib(bytes) + " for " + purpose;
    (void)cudaGetLastError();
    if (cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
      doing += " (" + in_mib(free_bytes) + " of " + in_mib(total_bytes) + " are free)";
    }
    return cuda_status(error, "cudaMalloc", doing);
  }
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = bytes;
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  // An error here repeats one that an earlier call has reported.
  if (data_ != nullptr) (void)cudaFree(data_);
}

Status DeviceBuffer::upload(std::span<const std::byte> source, size_t offset_bytes) const {
  FORERUN_RETURN_IF_ERROR(check_range(source.size(), offset_bytes, bytes_, "an upload"));
  if (source.empty()) return {};
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaMemcpy(data_ + offset_bytes, source.data(), source.size(), cudaMemcpyHostToDevice),
      "uploading " + std::to_string(source.size()) + " bytes");
  // cudaMemcpy returns once pageable memory has been staged, possibly before other streams see the
  // target.
  FORERUN_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr), "waiting for an upload");
  return {};
}

Status DeviceBuffer::download(std::span<std::byte> target, size_t offset_bytes) const {
  FORERUN_RETURN_IF_ERROR(check_range(target.size(), offset_bytes, bytes_, "a download"));
  if (target.empty()) return {};
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaMemcpy(target.data(), data_ + offset_bytes, target.size(), cudaMemcpyDeviceToHost),
      "downloading " + std::to_string(target.size()) + " bytes");
  return {};
}

Result<PinnedBuffer> PinnedBuffer::allocate(size_t bytes, const char* purpose) {
  PinnedBuffer buffer;
  if (bytes == 0) return buffer;
  void* data = nullptr;
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaHostAlloc(&data, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
      "allocating " + in_mib(bytes) + " of page-locked memory for " + purpose);
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = bytes;
  return buffer;
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) (void)cudaFreeHost(data_);
}

}  // namespace forerun::cuda
