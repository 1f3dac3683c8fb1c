// What GPUs this process sees, and how fast their memory is read.
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
  std::string uuid;  // hexadecimal; no other GPU has it
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t shared_bytes_per_block = 0;  // the largest that a kernel may ask for
  std::vector<bool> peer_access;       // [index of the other GPU]; false for itself
};

// Empty where there is no GPU or no driver; fails if a GPU that is there cannot be asked. Changes
// the current device and puts it back.
Result<std::vector<DeviceInfo>> list_devices();

// Makes a device the calling thread's current one. kNotFound where there is none of this number.
Status use_device(int index);
// Of the current device.
Result<int64_t> free_memory();

// Read bandwidth of the current device in bytes a second: the median of several passes over
// `bytes` of memory (several times the L2, or the cache is measured). Allocates and frees `bytes`.
Result<double> measure_read_bandwidth(size_t bytes);

// Copy bandwidth from one GPU's memory to another's in bytes a second, likewise; over their link
// where they have peer access, else through the host.
Result<double> measure_copy_bandwidth(int from, int to, size_t bytes);

}  // namespace forerun::cuda
