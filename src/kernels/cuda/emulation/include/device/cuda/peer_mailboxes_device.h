// Emulates device/cuda/peer_mailboxes_device.h on the host. No other GPU ever sends, so a kernel
// that waits for one ends the program.
#pragma once

#include "device/cuda/peer_mailboxes.h"
#include "kernels/cuda/emulation/emulation.h"

namespace forerun::cuda {

inline void store_mailbox(uint4* word, uint4 v) { *word = v; }
inline uint4 load_mailbox(const uint4* word) { return *word; }
inline bool has_arrived(uint4 v) {
  return v.x != kNotArrived && v.y != kNotArrived && v.z != kNotArrived && v.w != kNotArrived;
}
struct PeerWait {
  bool more(const PeerMailboxes& /*peers*/, int /*missing*/, int /*limit_factor*/ = 1) {
    emulation::fail("sums over a group are not emulated");
  }
};
inline void finish_collecting(const PeerMailboxes& /*peers*/) {}

}  // namespace forerun::cuda
