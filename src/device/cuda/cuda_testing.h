// Helpers for GoogleTest tests of GPU code, which copy vectors to device memory and back.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_memory.h"

#define ASSERT_OK(expr)                                      \
  do {                                                       \
    const ::forerun::Status status_ = (expr);                \
    ASSERT_TRUE(status_.ok()) << #expr << status_.message(); \
  } while (false)

// Skips a test if fewer than `wanted` GPUs, counted from cuda:0, can run the kernels.
#define SKIP_WITHOUT_GPUS(wanted)                                                                  \
  do {                                                                                             \
    const int found_ = ::forerun::cuda::gpus_of_sm90();                                            \
    if (found_ < (wanted)) {                                                                       \
      GTEST_SKIP() << "needs " << (wanted) << " GPUs of compute capability 9.0, found " << found_; \
    }                                                                                              \
  } while (false)

namespace forerun::cuda {

// Returns the number of sm_90 GPUs, counted from cuda:0 up to the first GPU of another kind.
// Kernels are built for sm_90a and run on no other GPU.
inline int gpus_of_sm90() {
  const Result<std::vector<DeviceInfo>> devices = list_devices();
  EXPECT_TRUE(devices.ok()) << devices.status().message();
  int count = 0;
  while (devices.ok() && count < static_cast<int>(devices->size()) &&
         (*devices)[static_cast<size_t>(count)].compute_major == 9) {
    ++count;
  }
  return count;
}

template <class T>
DeviceBuffer to_device(const std::vector<T>& values) {
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(values.size() * sizeof(T), "test data");
  EXPECT_TRUE(buffer.ok()) << buffer.status().message();
  const Status status = buffer->upload(std::as_bytes(std::span(values)));
  EXPECT_TRUE(status.ok()) << status.message();
  return std::move(buffer).value();
}

template <class T>
std::vector<T> to_host(const DeviceBuffer& buffer, size_t count) {
  std::vector<T> values(count);
  const Status status = buffer.download(std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

inline std::vector<uint16_t> random_bf16(size_t count, float deviation, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<uint16_t> values(count);
  for (uint16_t& v : values) v = to_bf16(normal(engine)).bits;
  return values;
}

}  // namespace forerun::cuda
