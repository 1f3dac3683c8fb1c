// One rank's view of the mailboxes of a PeerGroup: plain data that kernels take by value.
//
// A mailbox receives 16-byte words from every rank. A word that has not arrived holds kNotArrived
// in each of its 32-bit parts; no sender ever sends this value, so the data is its own flag. The
// receiver polls until no part of a word is kNotArrived, and then puts kNotArrived back for the
// next sender. There is no counter that would have to advance, be captured in a graph or wrap
// around.
//
// Every rank has two mailboxes; exchanges alternate between them. Two are enough if each rank runs
// its kernels in the order of one stream and if, in every exchange, every rank waits for a word of
// every other rank (or for a word computed from such words). Proof: let rank a send a word of
// exchange n + 2, into the mailbox of exchange n. Then a has finished exchange n + 1, in which it
// waited for a word of every rank b. Rank b sent that word after its kernel of exchange n was
// complete, so b has read every word of exchange n and put kNotArrived back.
#pragma once

#include <vector_types.h>

#include <cstdint>

namespace forerun::cuda {

inline constexpr int kMaxPeers = 8;
// A pair of bf16 that no sender produces (rounding turns every NaN into 0x7fff).
inline constexpr uint32_t kNotArrived = 0xffffffffu;

// Values of the fault word.
inline constexpr uint32_t kPeersAborted = 1;
constexpr uint32_t waited_in_vain(int waiter, int missing) {
  return 0x100u | static_cast<uint32_t>(waiter) << 4 | static_cast<uint32_t>(missing);
}
constexpr uint32_t fault_waiter(uint32_t fault) { return fault >> 4 & 15; }
constexpr uint32_t fault_missing(uint32_t fault) { return fault & 15; }

struct PeerMailboxes {
  int rank = 0;
  int degree = 0;
  uint4* send[kMaxPeers] = {};  // this rank's [slot_words] in the mailbox of each rank
  uint4* received = nullptr;    // [degree][slot_words], by sender, in this rank's mailbox
  int64_t slot_words = 0;
  int64_t two_shot_bytes = 0;     // all-reduces of at least this many bytes take two shots
  bool received_on_host = false;  // this rank's mailbox is host memory
  // The group's fault word, in host memory. Any value but 0 tells waiting kernels to continue
  // without the missing data. A kernel that has waited for wait_limit_ns sets it.
  uint32_t* fault = nullptr;
  uint64_t wait_limit_ns = 0;

  // Returns the same view for mailbox 0 or 1. May be called only on the view of mailbox 0.
  PeerMailboxes turn(int mailbox) const {
    PeerMailboxes view = *this;
    const int64_t words = mailbox * degree * slot_words;
    for (int peer = 0; peer < degree; ++peer) view.send[peer] += words;
    view.received += words;
    return view;
  }
};

}  // namespace forerun::cuda
