// Device code by which kernels write, read and wait for words of mailboxes (peer_mailboxes.h).
#pragma once

#include <cstdint>

#include "device/cuda/peer_mailboxes.h"

namespace forerun::cuda {

// The hardware never splits a 32-bit part of a word, and each part shows by itself whether it has
// arrived, so the 16 bytes need not be atomic.
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

// One thread's waits for mailbox words during a launch. It reads the clock once in 1,024 polls, and
// the fault word in host memory once per millisecond, since more frequent reads by a thousand
// threads would slow the exchange.
struct PeerWait {
  uint64_t since_ns = 0, look_ns = 0;
  int polls = 0;
  bool given_up = false;

  // Returns whether to poll again after a poll that found a word missing. `limit_factor` multiplies
  // the time limit. It is larger for a word whose sender may be waiting too, so that the fault
  // names the rank that never came.
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

// Ends a thread's waits, after its last word. Makes the kNotArrived that this thread put back in
// host memory visible before another GPU can know that this kernel has ended.
__device__ __forceinline__ void finish_collecting(const PeerMailboxes& peers) {
  if (peers.received_on_host) __threadfence_system();
}

}  // namespace forerun::cuda
