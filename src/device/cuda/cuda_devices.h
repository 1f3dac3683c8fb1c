// A list of the GPUs that this process sees, with measurements of their memory and copy bandwidth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::cuda {

struct DeviceInfo {
  int index = 0;
  std::string name;
  std::string uuid;  // hexadecimal; unique to the GPU
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t shared_bytes_per_block = 0;  // the most that one kernel may request
  std::vector<bool> peer_access;       // [index of the other GPU]; false for itself
};

// Lists the GPUs; the list is empty without a GPU or a driver. Fails if a GPU's properties cannot
// be read. Leaves the current device as it was.
Result<std::vector<DeviceInfo>> list_devices();

// Makes device `index` the calling thread's current device. Returns kNotFound if there is no such
// device.
Status use_device(int index);
// Returns the free memory of the current device, in bytes.
Result<int64_t> free_memory();

// Measures the read bandwidth of the current device in bytes per second: the median of several
// passes over `bytes` of memory, which must be several times the L2 to bypass that cache. Allocates
// and frees `bytes`.
Result<double> measure_read_bandwidth(size_t bytes);

// Measures the bandwidth of copies from one GPU's memory to another's in bytes per second: the
// median of several passes. Copies go over their link if the GPUs have peer access, otherwise
// through the host.
Result<double> measure_copy_bandwidth(int from, int to, size_t bytes);

}  // namespace forerun::cuda
