// How kernels write, read and wait for words of the mailboxes (peer_mailboxes.h). Device code.
#pragma once

#include <cstdint>

#include "device/cuda/peer_mailboxes.h"

namespace forerun::cuda {

// Four bytes at a time are written and seen whole, and each tells by itself whether it has arrived.
__device__ __forceinline__ void store_mailbox(uint4* word, uint4 v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(word), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ __forceinline__ uint4 load_mailbox(const uint4* word) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3},[%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(word)
               : "memory");
  return v;
}
__device__ __forceinline__ bool has_arrived(uint4 v) {
  return v.x != kNotArrived && v.y != kNotArrived && v.z != kNotArrived && v.w != kNotArrived;
}

// A thread's waiting for its words of one launch. Looks at the clock once in a thousand polls, at
// the host's memory once in a millisecond: a thousand threads that did so at once would take
// longer.
struct PeerWait {
  uint64_t since_ns = 0, look_ns = 0;
  int polls = 0;
  bool given_up = false;

  // After a poll that found a word missing: whether to poll again. `limit_factor`: times the limit,
  // more for a word whose sender may wait too, so that the blame falls on who has not come.
  __device__ __forceinline__ bool more(const PeerMailboxes& peers, int missing,
                                       int limit_factor = 1) {
    if (given_up) return false;
    if ((++polls & 1023) != 0) return true;
    uint64_t now;
    asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(now)::"memory");
    if (since_ns == 0) since_ns = look_ns = now;
    if (now - look_ns < 1'000'000) return true;
    look_ns = now;
    uint32_t fault;
    asm volatile("ld.relaxed.sys.global.u32 %0,[%1];" : "=r"(fault) : "l"(peers.fault) : "memory");
    if (fault == 0 && now - since_ns > limit_factor * peers.wait_limit_ns) {
      fault = waited_in_vain(peers.rank, missing);
      asm volatile("st.relaxed.sys.global.u32 [%0],%1;" ::"l"(peers.fault), "r"(fault) : "memory");
    }
    given_up = fault != 0;
    return !given_up;
  }
};

// After a thread's last word: host memory is put back before another GPU can know that this kernel
// has ended.
__device__ __forceinline__ void finish_collecting(const PeerMailboxes& peers) {
  if (peers.received_on_host) __threadfence_system();
}

}  // namespace forerun::cuda
