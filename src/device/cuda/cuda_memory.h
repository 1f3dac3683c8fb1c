// Owned GPU memory, and host memory that GPUs read and write in place.
//
// Allocation and release synchronize with the device: allocate at load, never inside a forward, and
// never while a kernel of this device may be waiting for a peer. Movable, not copyable; const
// methods may be called from many threads.
#pragma once

#include <cstddef>
#include <span>

#include "forerun/status.h"

namespace forerun::cuda {

// Memory of the device that was current at allocation, aligned to 256 bytes.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // `purpose` names the contents in the error message, which also says how many bytes are free.
  // Zero bytes give an empty buffer.
  static Result<DeviceBuffer> allocate(size_t bytes, const char* purpose);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  size_t bytes() const { return bytes_; }
  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  // Copy the whole span and block until done; `offset_bytes` + its size must lie within the buffer.
  Status upload(std::span<const std::byte> source, size_t offset_bytes = 0) const;
  Status download(std::span<std::byte> target, size_t offset_bytes = 0) const;

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Page-locked host memory, mapped into every GPU's address space. Kernels read each Step's inputs
// from it and write results to it without a copy call.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  static Result<PinnedBuffer> allocate(size_t bytes, const char* purpose);
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();

  size_t bytes() const { return bytes_; }
  // Returns a unified address: valid on the host and on every GPU.
  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace forerun::cuda
