// GPUs of one process that exchange data from inside their kernels. A PeerGroup enables peer access
// and owns the mailboxes (peer_mailboxes.h) of every rank.
//
// A rank's mailboxes lie in its own memory if all other GPUs of the group can access it, otherwise
// in host memory, which all of them can access. Host memory is much slower, but kernels and bits
// are the same.
//
// Kernels of one rank wait for kernels of the others. So while any rank has such kernels submitted,
// the others' kernels must be able to start: every rank submits its exchanges from its own thread,
// and meanwhile no thread allocates or frees memory, loads a module or builds a graph. If a rank
// never starts its exchange, the others stop waiting after wait_limit_ms.
//
// A group is movable. Any thread may call abort() and check(); only one thread at a time may call
// the other functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/cuda/cuda_memory.h"
#include "device/cuda/peer_mailboxes.h"
#include "forerun/status.h"

namespace forerun::cuda {

struct PeerGroupOptions {
  int64_t max_rows = 0;  // largest number of rows of one exchange
  int64_t width = 0;     // largest number of columns of one exchange
  int wait_limit_ms = 10'000;
  // All-reduces of at least this many bytes per rank take two shots (linear/cuda/reduce.h). If
  // unset, the group takes the fastest value for its number of ranks.
  std::optional<int64_t> two_shot_bytes = {};
  bool mailboxes_on_host = false;  // even with peer access; for tests
  // Several ranks may share a GPU, for tests of more ranks than there are GPUs. The caller ensures
  // that a kernel that waits for a rank leaves room on the GPU for that rank's kernels.
  bool shared_gpus = false;
};

class PeerGroup {
 public:
  // `devices`: 2 to 8 GPUs, each once (shared_gpus); rank r runs on devices[r]. Takes 4 * max_rows
  // * width * devices.size() bytes of each (rows rounded up to 8, columns to 32). An error names
  // the missing GPU or the memory that ran out. The current device stays the same.
  static Result<PeerGroup> create(std::span<const int> devices, const PeerGroupOptions& options);
  // Makes a group of one GPU that stands for `degree` GPUs: its only rank, 0, receives its own data
  // as if every rank had sent it. For tests, and for measuring without links.
  static Result<PeerGroup> loopback(int device, int degree, const PeerGroupOptions& options);

  int degree() const { return ranks_[0].degree; }
  // Returns mailbox 0 of a rank; PeerMailboxes::turn() gives mailbox 1. Valid as long as the group.
  const PeerMailboxes& rank(int rank) const { return ranks_[static_cast<size_t>(rank)]; }

  // Ends every wait of every rank's kernels, including running kernels, until reset().
  void abort() const;
  // Reports whether the exchanges succeeded; call it once a rank's kernels are done. Returns
  // kCancelled if abort() was called, kDeadlineExceeded if a wait timed out; the message names the
  // rank that waited and the missing rank. On an error the group's results and the contents of its
  // mailboxes are invalid.
  Status check() const;
  // Makes the group usable again after a failed check(). No rank may have kernels submitted.
  Status reset() const;

 private:
  PeerGroup() = default;
  // Allocates the mailboxes of ranks_.size() ranks, each of which exchanges with `degree` ranks.
  Status allocate(size_t degree, const PeerGroupOptions& options);

  std::vector<int> devices_;
  std::vector<PeerMailboxes> ranks_;
  std::vector<DeviceBuffer> device_mailboxes_;  // by rank; empty if on the host
  std::vector<PinnedBuffer> host_mailboxes_;
  PinnedBuffer fault_;
};

}  // namespace forerun::cuda
