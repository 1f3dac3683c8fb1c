// One rank's view of the mailboxes of a PeerGroup: plain data, copied into the arguments of
// kernels.
//
// A mailbox takes 16-byte words from every rank. A word that has not arrived holds kNotArrived in
// each of its 32-bit parts, which no sender ever sends: the data is its own flag. The receiver
// polls until no part of a word is kNotArrived, and then puts kNotArrived back for the next sender.
// Nothing counts, so there is no counter to advance, to capture in a graph or to wrap.
//
// Every rank has two mailboxes, used by turns. That suffices where kernels run in the order of one
// stream a rank and every exchange makes every rank wait for a word of every other, or for one made
// of such words: let rank a send a word of exchange n + 2, into the mailbox of exchange n. Then a
// has finished exchange n + 1, for which every rank b has sent a word that a waited for; b did so
// after its kernel of exchange n was complete, so b has read every word of it and put it back.
#pragma once

#include <vector_types.h>

#include <cstdint>

namespace forerun::cuda {

inline constexpr int kMaxPeers = 8;
// Two bf16 as rounding never makes them (its NaN is 0x7fff).
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
  int64_t two_shot_bytes = 0;     // a sum over the group of as many is made in two shots
  bool received_on_host = false;  // this rank's mailbox is host memory
  // One for the group, in host memory: anything but 0 tells waiting kernels to go on without what
  // they wait for. A kernel that has waited for wait_limit_ns sets it.
  uint32_t* fault = nullptr;
  uint64_t wait_limit_ns = 0;

  // The same view of mailbox 0 or 1; only from the view of mailbox 0.
  PeerMailboxes turn(int mailbox) const {
    PeerMailboxes view = *this;
    const int64_t words = mailbox * degree * slot_words;
    for (int peer = 0; peer < degree; ++peer) view.send[peer] += words;
    view.received += words;
    return view;
  }
};

}  // namespace forerun::cuda
