// The device of emulated kernels (device/cuda/cuda_devices.h, device/cuda/cuda_stream.h). There is
// one device, and its streams are always idle.
#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_stream.h"

namespace forerun::cuda {

Result<std::vector<DeviceInfo>> list_devices() {
  DeviceInfo device;
  device.compute_major = 9;
  return std::vector<DeviceInfo>{device};
}

Result<Stream> Stream::create() { return Stream(); }
Stream::~Stream() = default;
Status Stream::synchronize() const { return {}; }

}  // namespace forerun::cuda
