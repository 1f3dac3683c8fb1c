#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"

namespace forerun::cuda {
namespace {

constexpr int kReadThreads = 512;
constexpr int kReadUnroll = 4;

// Reads `count` vectors. It stores only if their exclusive-or has one value in 2^64, so that the
// compiler keeps the loads and the kernel writes nothing.
__global__ void read_kernel(const uint4* __restrict__ data, size_t count, uint2* sink) {
  const size_t stride = static_cast<size_t>(gridDim.x) * kReadThreads;
  size_t index = static_cast<size_t>(blockIdx.x) * kReadThreads + threadIdx.x;
  uint2 mix = {0, 0};
  for (; index + (kReadUnroll - 1) * stride < count; index += kReadUnroll * stride) {
    uint4 v[kReadUnroll];
#pragma unroll
    for (int u = 0; u < kReadUnroll; ++u) v[u] = __ldcs(data + index + u * stride);
#pragma unroll
    for (int u = 0; u < kReadUnroll; ++u) {
      mix.x ^= v[u].x ^ v[u].z;
      mix.y ^= v[u].y ^ v[u].w;
    }
  }
  if (mix.x == 0x9e3779b9u && mix.y == 0x7f4a7c15u) *sink = mix;
}

}  // namespace

Result<std::vector<DeviceInfo>> list_devices() {
  std::vector<DeviceInfo> devices;
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count);
      error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
    (void)cudaGetLastError();
    return devices;
  } else {
    FORERUN_RETURN_IF_ERROR(cuda_status(error, "cudaGetDeviceCount", "counting GPUs"));
  }
  int current = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetDevice(&current), "asking for the current GPU");
  for (int index = 0; index < count; ++index) {
    const std::string doing = "asking for the properties of GPU " + std::to_string(index);
    cudaDeviceProp prop;
    FORERUN_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&prop, index), doing);
    DeviceInfo info;
    info.index = index;
    info.name = prop.name;
    for (const char byte : prop.uuid.bytes) {
      constexpr const char* kDigits = "0123456789abcdef";
      info.uuid += kDigits[static_cast<unsigned char>(byte) >> 4];
      info.uuid += kDigits[static_cast<unsigned char>(byte) & 15];
    }
    info.compute_major = prop.major;
    info.compute_minor = prop.minor;
    info.multiprocessors = prop.multiProcessorCount;
    info.l2_bytes = prop.l2CacheSize;
    info.shared_bytes_per_block = static_cast<int64_t>(prop.sharedMemPerBlockOptin);
    FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(index), doing);
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    const cudaError_t memory = cudaMemGetInfo(&free_bytes, &total_bytes);
    FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(current), doing);
    FORERUN_RETURN_IF_ERROR(cuda_status(memory, "cudaMemGetInfo", doing));
    info.memory_bytes = static_cast<int64_t>(total_bytes);
    info.free_bytes = static_cast<int64_t>(free_bytes);
    for (int other = 0; other < count; ++other) {
      int can_access = 0;
      if (other != index) {
        FORERUN_CUDA_RETURN_IF_ERROR(cudaDeviceCanAccessPeer(&can_access, index, other), doing);
      }
      info.peer_access.push_back(can_access != 0);
    }
    devices.push_back(std::move(info));
  }
  return devices;
}

Status use_device(int index) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();  // without a driver there is no GPU
    count = 0;
  }
  if (index < 0 || index >= count) {
    return {StatusCode::kNotFound,
            "found cuda:" + std::to_string(index) + ", this machine has " +
                (count == 0 ? "no GPU" : "cuda:0 to cuda:" + std::to_string(count - 1))};
  }
  FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(index), "choosing a GPU");
  return {};
}

Result<int64_t> free_memory() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  return static_cast<int64_t>(free_bytes);
}

namespace {

// Returns the seconds that `submit` takes on the stream: the median of several passes after one to
// warm up.
Result<double> median_seconds(const Stream& stream, const std::function<Status()>& submit) {
  constexpr int kPasses = 7;
  FORERUN_ASSIGN_OR_RETURN(Event start, Event::create());
  FORERUN_ASSIGN_OR_RETURN(Event stop, Event::create());
  std::vector<float> times_ms;
  for (int pass = 0; pass <= kPasses; ++pass) {
    FORERUN_RETURN_IF_ERROR(start.record(stream));
    FORERUN_RETURN_IF_ERROR(submit());
    FORERUN_RETURN_IF_ERROR(stop.record(stream));
    FORERUN_RETURN_IF_ERROR(stop.synchronize());
    FORERUN_ASSIGN_OR_RETURN(const float ms, stop.elapsed_ms(start));
    if (pass > 0) times_ms.push_back(ms);
  }
  std::sort(times_ms.begin(), times_ms.end());
  return static_cast<double>(times_ms[kPasses / 2]) * 1e-3;
}

}  // namespace

Result<double> measure_read_bandwidth(size_t bytes) {
  const size_t count = bytes / sizeof(uint4);
  if (count == 0) {
    return Status(
        StatusCode::kInvalidArgument,
        "bandwidth measurement: found " + std::to_string(bytes) + " bytes; accepted: at least 16");
  }
  int device = 0;
  int multiprocessors = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device), "asking for the current GPU");
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
      "counting multiprocessors");
  FORERUN_ASSIGN_OR_RETURN(DeviceBuffer data,
                           DeviceBuffer::allocate(bytes, "a bandwidth measurement"));
  FORERUN_ASSIGN_OR_RETURN(DeviceBuffer sink, DeviceBuffer::allocate(16, "a result"));
  FORERUN_ASSIGN_OR_RETURN(Stream stream, Stream::create());
  FORERUN_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(data.data(), 1, bytes, stream.get()),
                               "filling memory");
  FORERUN_ASSIGN_OR_RETURN(const double seconds, median_seconds(stream, [&]() -> Status {
                             read_kernel<<<multiprocessors * 8, kReadThreads, 0, stream.get()>>>(
                                 data.as<uint4>(), count, sink.as<uint2>());
                             FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(),
                                                          "launching a read of memory");
                             return {};
                           }));
  return static_cast<double>(bytes) / seconds;
}

Result<double> measure_copy_bandwidth(int from, int to, size_t bytes) {
  constexpr const char* kDoing = "measuring a link between GPUs";
  int current = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetDevice(&current), kDoing);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(to), kDoing);
  FORERUN_ASSIGN_OR_RETURN(const DeviceBuffer target, DeviceBuffer::allocate(bytes, kDoing));
  FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(from), kDoing);
  FORERUN_ASSIGN_OR_RETURN(const DeviceBuffer source, DeviceBuffer::allocate(bytes, kDoing));
  FORERUN_ASSIGN_OR_RETURN(const Stream stream, Stream::create());
  // Enabling fails if peer access is enabled already, which is no error here.
  if (cudaDeviceEnablePeerAccess(to, 0) != cudaSuccess) cudaGetLastError();
  const auto seconds = median_seconds(stream, [&]() -> Status {
    FORERUN_CUDA_RETURN_IF_ERROR(
        cudaMemcpyPeerAsync(target.data(), to, source.data(), from, bytes, stream.get()), kDoing);
    return {};
  });
  FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(current), kDoing);
  if (!seconds.ok()) return seconds.status();
  return static_cast<double>(bytes) / *seconds;
}

}  // namespace forerun::cuda
