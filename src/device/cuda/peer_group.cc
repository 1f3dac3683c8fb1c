#include "device/cuda/peer_group.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_error.h"

namespace forerun::cuda {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Returns the smallest all-reduce, in bytes, for which two shots are faster than one. With two
// shots each of n ranks sends 2 (n - 1) / n times the bytes instead of n - 1 times, but waits for a
// second trip over the links, during which the links could carry kTripBytes.
int64_t min_two_shot_bytes(int64_t degree) {
  constexpr int64_t kTripBytes = 640'000;
  return degree == 2 ? kNever : degree * kTripBytes / ((degree - 1) * (degree - 2));
}

// A guard that restores the calling thread's current device.
class CurrentDevice {
 public:
  CurrentDevice() : known_(cudaGetDevice(&device_) == cudaSuccess) {}
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (known_) (void)cudaSetDevice(device_);
  }

 private:
  int device_ = 0;
  bool known_;
};

std::string gpu_name(int device) { return "cuda:" + std::to_string(device); }

Status refuse(const std::string& what) {
  return {StatusCode::kInvalidArgument, "a group of GPUs: " + what};
}

Status check_options(size_t degree, const PeerGroupOptions& options) {
  if (degree < 2 || degree > kMaxPeers) {
    return refuse(std::to_string(degree) + " ranks; accepted: 2 to " + std::to_string(kMaxPeers));
  }
  if (options.max_rows < 1 || options.width < 1 || options.wait_limit_ms < 1) {
    return refuse("rows, width and wait_limit_ms must be at least 1");
  }
  return {};
}

// Enables access to the memory of devices[owner] from every other device of the group. Returns
// whether all of them can access it.
Result<bool> open_to_peers(std::span<const int> devices, size_t owner) {
  for (const int peer : devices) {
    if (peer == devices[owner]) continue;
    int reaches = 0;
    FORERUN_CUDA_RETURN_IF_ERROR(
        cudaDeviceCanAccessPeer(&reaches, peer, devices[owner]),
        "asking whether " + gpu_name(peer) + " reaches " + gpu_name(devices[owner]));
    if (reaches == 0) return false;
  }
  for (const int peer : devices) {
    if (peer == devices[owner]) continue;
    FORERUN_RETURN_IF_ERROR(use_device(peer));
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(devices[owner], 0);
    if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError();
      continue;
    }
    FORERUN_RETURN_IF_ERROR(
        cuda_status(enabled, "cudaDeviceEnablePeerAccess",
                    "opening the memory of " + gpu_name(devices[owner]) + " to its peers"));
  }
  return true;
}

}  // namespace

Status PeerGroup::allocate(size_t degree, const PeerGroupOptions& options) {
  FORERUN_ASSIGN_OR_RETURN(fault_, PinnedBuffer::allocate(sizeof(uint32_t), "a group's fault"));
  // A word holds 8 bf16. Rows and columns are rounded up to fragments of 8 rows x 32 columns.
  const int64_t slot_words = (options.max_rows + 7) / 8 * ((options.width + 31) / 32) * 32;
  const size_t bytes = 2 * degree * static_cast<size_t>(slot_words) * sizeof(uint4);
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    bool on_host = options.mailboxes_on_host;
    if (!on_host) {
      FORERUN_ASSIGN_OR_RETURN(const bool open, open_to_peers(devices_, rank));
      on_host = !open;
    }
    FORERUN_RETURN_IF_ERROR(use_device(devices_[rank]));
    DeviceBuffer device;
    PinnedBuffer host;
    if (on_host) {
      FORERUN_ASSIGN_OR_RETURN(host, PinnedBuffer::allocate(bytes, "mailboxes of GPUs"));
    } else {
      FORERUN_ASSIGN_OR_RETURN(device, DeviceBuffer::allocate(bytes, "mailboxes of GPUs"));
    }
    PeerMailboxes& view = ranks_[rank];
    view.rank = static_cast<int>(rank);
    view.degree = static_cast<int>(degree);
    view.received = on_host ? host.as<uint4>() : device.as<uint4>();
    view.slot_words = slot_words;
    view.two_shot_bytes =
        options.two_shot_bytes.value_or(min_two_shot_bytes(static_cast<int64_t>(degree)));
    view.received_on_host = on_host;
    view.fault = fault_.as<uint32_t>();
    view.wait_limit_ns = static_cast<uint64_t>(options.wait_limit_ms) * 1'000'000;
    device_mailboxes_.push_back(std::move(device));
    host_mailboxes_.push_back(std::move(host));
  }
  return reset();
}

Result<PeerGroup> PeerGroup::create(std::span<const int> devices, const PeerGroupOptions& options) {
  FORERUN_RETURN_IF_ERROR(check_options(devices.size(), options));
  for (size_t rank = 1; rank < devices.size(); ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      if (devices[rank] == devices[other] && !options.shared_gpus) {
        return refuse(gpu_name(devices[rank]) + " is listed twice");
      }
    }
  }
  const CurrentDevice restored;
  for (const int device : devices) FORERUN_RETURN_IF_ERROR(use_device(device));
  PeerGroup group;
  group.devices_.assign(devices.begin(), devices.end());
  group.ranks_.resize(devices.size());
  FORERUN_RETURN_IF_ERROR(group.allocate(devices.size(), options));
  for (PeerMailboxes& from : group.ranks_) {
    for (const PeerMailboxes& to : group.ranks_) {
      from.send[to.rank] = to.received + from.rank * to.slot_words;
    }
  }
  return group;
}

Result<PeerGroup> PeerGroup::loopback(int device, int degree, const PeerGroupOptions& options) {
  FORERUN_RETURN_IF_ERROR(check_options(static_cast<size_t>(degree), options));
  const CurrentDevice restored;
  PeerGroup group;
  group.devices_ = {device};
  group.ranks_.resize(1);
  FORERUN_RETURN_IF_ERROR(group.allocate(static_cast<size_t>(degree), options));
  PeerMailboxes& only = group.ranks_[0];
  only.two_shot_bytes = kNever;  // no other rank adds anything
  for (int rank = 0; rank < degree; ++rank) {
    only.send[rank] = only.received + rank * only.slot_words;
  }
  return group;
}

void PeerGroup::abort() const { std::atomic_ref(*fault_.as<uint32_t>()).store(kPeersAborted); }

Status PeerGroup::check() const {
  const uint32_t fault = std::atomic_ref(*fault_.as<uint32_t>()).load();
  if (fault == 0) return {};
  if (fault == kPeersAborted)
    return {StatusCode::kCancelled, "an exchange between GPUs was aborted"};
  const auto name = [&](uint32_t rank) {
    return "rank " + std::to_string(rank) +
           (rank < devices_.size() ? " (" + gpu_name(devices_[rank]) + ")" : "");
  };
  return {StatusCode::kDeadlineExceeded, name(fault_waiter(fault)) +
                                             " of a group of GPUs waited for " +
                                             std::to_string(ranks_[0].wait_limit_ns / 1'000'000) +
                                             " ms for " + name(fault_missing(fault))};
}

Status PeerGroup::reset() const {
  const CurrentDevice restored;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (const PinnedBuffer& host = host_mailboxes_[rank]; host.data() != nullptr) {
      std::memset(host.data(), kNotArrived & 0xff, host.bytes());
      continue;
    }
    FORERUN_RETURN_IF_ERROR(use_device(devices_[rank]));
    const DeviceBuffer& device = device_mailboxes_[rank];
    FORERUN_CUDA_RETURN_IF_ERROR(cudaMemset(device.data(), kNotArrived & 0xff, device.bytes()),
                                 "clearing mailboxes of GPUs");
    FORERUN_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr), "clearing mailboxes of GPUs");
  }
  std::atomic_ref(*fault_.as<uint32_t>()).store(0);
  return {};
}

}  // namespace forerun::cuda
