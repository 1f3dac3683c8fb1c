// GPUs of one process that exchange data from inside their kernels: peer access and the mailboxes
// (peer_mailboxes.h) of every rank.
//
// A rank's mailboxes lie in its own memory where all other GPUs of the group reach it, otherwise in
// host memory, which all of them reach: slower by far, but the same kernels and the same bits.
//
// Kernels of one rank wait for those of the others. So while any rank has such work submitted, the
// others' must be able to start: every rank submits its exchanges from a thread of its own, and
// meanwhile nobody allocates or frees memory, loads a module or builds a graph. A rank that never
// comes ends the others' waiting after wait_limit_ms.
//
// Movable. abort() and check() from any thread, the rest from one at a time.
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
  int64_t most_rows = 0;  // of one exchange
  int64_t width = 0;      // columns of one exchange at most
  int wait_limit_ms = 10'000;
  // From how many bytes a rank on a sum is made in two shots (linear/cuda/reduce.h); what is
  // fastest for the number of ranks if unset.
  std::optional<int64_t> two_shot_bytes = {};
  bool mailboxes_on_host = false;  // even where GPUs reach each other; for tests
  // Ranks of one GPU, for tests of more ranks than there are GPUs: the caller sees to it that what
  // waits for a rank leaves room for that rank's kernels.
  bool shared_gpus = false;
};

class PeerGroup {
 public:
  // `devices`: 2 to 8 GPUs, each once (shared_gpus); rank r runs on devices[r]. Takes 4 * most_rows
  // * width * devices.size() bytes of each (rows rounded up to 8, columns to 32). Fails naming the
  // GPU that is not there or the memory that is short. Leaves the current device as it was.
  static Result<PeerGroup> create(std::span<const int> devices, const PeerGroupOptions& options);
  // One GPU in the place of `degree`: its only rank, 0, receives what it sends as if every rank had
  // sent the same. For tests, and for measuring without links.
  static Result<PeerGroup> loopback(int device, int degree, const PeerGroupOptions& options);

  int degree() const { return ranks_[0].degree; }
  // Mailbox 0 of a rank; PeerMailboxes::turn() gives the other. Valid as long as the group.
  const PeerMailboxes& rank(int rank) const { return ranks_[static_cast<size_t>(rank)]; }

  // Ends every rank's waiting, now and until reset(). Also while kernels run.
  void abort() const;
  // To be called once a rank's work is done: kCancelled after abort(), kDeadlineExceeded naming who
  // waited for whom. What the group has computed is then worthless, and so are its mailboxes.
  Status check() const;
  // Makes the group usable again after a failed check(). No rank may have work submitted.
  Status reset() const;

 private:
  PeerGroup() = default;
  // Memory and views of ranks_.size() ranks that exchange with `degree`.
  Status allocate(size_t degree, const PeerGroupOptions& options);

  std::vector<int> devices_;
  std::vector<PeerMailboxes> ranks_;
  std::vector<DeviceBuffer> device_mailboxes_;  // of each rank; empty where they are on the host
  std::vector<PinnedBuffer> host_mailboxes_;
  PinnedBuffer fault_;
};

}  // namespace forerun::cuda
