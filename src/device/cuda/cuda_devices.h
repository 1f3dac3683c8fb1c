// Lists the GPUs that this process sees and measures their memory and copy bandwidth.
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
  int64_t shared_bytes_per_block = 0;  // the most that a kernel may request
  std::vector<bool> peer_access;       // [index of the other GPU]; false for itself
};

// Returns an empty list if there is no GPU or no driver; fails if a GPU's properties cannot be
// read. The current device is restored before it returns.
Result<std::vector<DeviceInfo>> list_devices();

// Makes device `index` the calling thread's current device. kNotFound: there is no such device.
Status use_device(int index);
// Free memory of the current device, in bytes.
Result<int64_t> free_memory();

// Read bandwidth of the current device in bytes a second: the median of several passes over `bytes`
// of memory (must be several times the L2, else the cache is measured). Allocates and frees
// `bytes`.
Result<double> measure_read_bandwidth(size_t bytes);

// Bandwidth of copies from one GPU's memory to another's in bytes a second: the median of several
// passes. Copies go over their link if they have peer access, otherwise through the host.
Result<double> measure_copy_bandwidth(int from, int to, size_t bytes);

}  // namespace forerun::cuda
