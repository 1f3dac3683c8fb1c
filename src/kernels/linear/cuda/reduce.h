// The sum over a group of GPUs in the linear kernels (linear/cuda/linear.cu, linear/cuda/tiles.cu),
// through mailboxes (device/cuda/peer_mailboxes.h). A word of 16 bytes holds what one lane owns of
// a fragment, 4 outputs of 2 rows, so that every word is pushed as soon as it is finished, and
// polled, by one thread each, without any barrier. Device code; included by the kernels alone.
//
// Few rows, one-shot: a rank's sums go to all ranks, each adds them up. More rows, two-shot
// (LinearKernelArgs::two_shot): they go to the rank that adds up this word, which sends the
// outputs, bias and residual in them, to the others: another trip over the links, of four GPUs half
// of the bytes, and the same bits. An output travels in its sender's slot, where the sums of words
// that the receiver adds up itself lie: no two things have one place. What a rank adds up it takes
// before it waits for outputs, so nobody waits in a ring.
//
// Blocks wait for other GPUs' blocks that have the same tile of rows: tiles follow from the number
// of rows alone (plan_launch), not from a rank's part of the inputs. The GPU starts blocks in the
// order of their index, those of one tile of rows all fit at once (those of linear_tiles_kernel all
// there are), and dependent kernels start when all blocks of this one have: so the least unfinished
// tile of rows always makes progress.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "device/cuda/peer_mailboxes_device.h"
#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/ring.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ void add(float4& a, const float4& b) {
  a.x += b.x;
  a.y += b.y;
  a.z += b.z;
  a.w += b.w;
}

// Which word of a slot holds lane `from` of a fragment: 8 rows from `row` on, rounded down.
__device__ __forceinline__ int64_t mailbox_word(const LinearKernelArgs& args, int tile, int row,
                                                int from) {
  return (static_cast<int64_t>(tile) * ((args.rows + 7) >> 3) + (row >> 3)) * 32 + from;
}

// The rank that adds a word up, of two shots: whole fragments, so that what meets in
// write_squares() stays together.
__device__ __forceinline__ int adding_rank(const PeerMailboxes& peers, int64_t word) {
  return static_cast<int>(word >> 5) % peers.degree;
}

// v as in store_plain().
__device__ __forceinline__ uint4 pack_word(const float4 (&v)[2]) {
  return make_uint4(pack_bf16x2(v[0].x, v[0].y), pack_bf16x2(v[0].z, v[0].w),
                    pack_bf16x2(v[1].x, v[1].y), pack_bf16x2(v[1].z, v[1].w));
}
__device__ __forceinline__ float4 unpack_pairs(uint32_t first, uint32_t second) {
  return make_float4(__uint_as_float(first << 16), __uint_as_float(first & 0xffff0000u),
                     __uint_as_float(second << 16), __uint_as_float(second & 0xffff0000u));
}
__device__ __forceinline__ void unpack_word(uint4 word, float4 (&v)[2]) {
  v[0] = unpack_pairs(word.x, word.y);
  v[1] = unpack_pairs(word.z, word.w);
}

// To the other ranks, and at last to this one if `own`.
__device__ __forceinline__ void push_to_peers(const PeerMailboxes& peers, int64_t word,
                                              uint4 packed, bool own) {
  int to = peers.rank;
#pragma unroll 1
  for (int i = own ? 0 : 1; i < peers.degree; ++i) {
    if (++to == peers.degree) to = 0;
    store_mailbox(peers.send[to] + word, packed);
  }
}

// What all ranks have sent of one word, added up in their order.
__device__ __forceinline__ void collect_from_peers(const PeerMailboxes& peers, int64_t word,
                                                   PeerWait& wait, float4 (&v)[2]) {
  constexpr int kInFlight = 4;  // ranks; their words travel together
  v[0] = v[1] = make_float4(0, 0, 0, 0);
#pragma unroll 1
  for (int first = 0; first < peers.degree; first += kInFlight) {
    uint4* const from = peers.received + first * peers.slot_words + word;
    uint4 words[kInFlight];
    int missing;
    do {
      missing = -1;
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first + i < peers.degree) words[i] = load_mailbox(from + i * peers.slot_words);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first + i < peers.degree && !has_arrived(words[i])) missing = first + i;
      }
    } while (missing >= 0 && wait.more(peers, missing));
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i >= peers.degree) continue;
      store_mailbox(from + i * peers.slot_words,
                    make_uint4(kNotArrived, kNotArrived, kNotArrived, kNotArrived));
      float4 sent[2];
      unpack_word(words[i], sent);
      add(v[0], sent[0]);
      add(v[1], sent[1]);
    }
  }
}

// A word of outputs that `from` has added up.
__device__ __forceinline__ uint4 receive_outputs(const PeerMailboxes& peers, int64_t word, int from,
                                                 PeerWait& wait) {
  uint4* const place = peers.received + from * peers.slot_words + word;
  uint4 outputs;
  do {
    outputs = load_mailbox(place);
  } while (!has_arrived(outputs) && wait.more(peers, from, /*limit_factor=*/2));
  store_mailbox(place, make_uint4(kNotArrived, kNotArrived, kNotArrived, kNotArrived));
  return outputs;
}

#endif

}  // namespace forerun::cuda
