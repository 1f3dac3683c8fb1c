// The sum over a group of GPUs in the linear kernels (linear_cuda.cu, linear_tiles_cuda.cu):
// one-shot, through mailboxes (device/cuda/peer_mailboxes.h). A word of 16 bytes holds what one
// lane owns of a fragment, 4 outputs of 2 rows, so that every word is pushed to all ranks as soon
// as it is finished, and polled, by one thread each, without any barrier. Device code; included by
// the kernels alone.
//
// Blocks wait for other GPUs' blocks that have the same tile of rows. The GPU starts blocks in the
// order of their index, those of one tile of rows all fit at once (those of linear_tiles_kernel all
// there are), and dependent kernels start when all blocks of this one have: so the least unfinished
// tile of rows always makes progress.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "device/cuda/peer_mailboxes_cuda.h"
#include "kernels/linear/linear_ring_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Which word of a slot holds lane `from` of a fragment: 8 rows from `row` on, rounded down.
__device__ __forceinline__ int64_t mailbox_word(const LinearKernelArgs& args, int tile, int row,
                                                int from) {
  return (static_cast<int64_t>(tile) * ((args.rows + 7) >> 3) + (row >> 3)) * 32 + from;
}

// v as in store_plain(): this rank's sums, to every rank, this one too.
__device__ __forceinline__ void push_to_peers(const PeerMailboxes& peers, int64_t word,
                                              const float4 (&v)[2]) {
  const uint4 packed = make_uint4(pack_bf16x2(v[0].x, v[0].y), pack_bf16x2(v[0].z, v[0].w),
                                  pack_bf16x2(v[1].x, v[1].y), pack_bf16x2(v[1].z, v[1].w));
  int to = peers.rank;
#pragma unroll 1
  for (int i = 0; i < peers.degree; ++i) {
    if (++to == peers.degree) to = 0;
    store_mailbox(peers.send[to] + word, packed);
  }
}

__device__ __forceinline__ void add_bf16x2(float& a, float& b, uint32_t pair) {
  a += __uint_as_float(pair << 16);
  b += __uint_as_float(pair & 0xffff0000u);
}

// What push_to_peers() of all ranks has sent of one word, added up in the order of the ranks.
__device__ __forceinline__ void collect_from_peers(const PeerMailboxes& peers, int64_t word,
                                                   PeerWait& wait, float4 (&v)[2]) {
  constexpr int kAtOnce = 4;  // ranks; their words travel together
  v[0] = v[1] = make_float4(0, 0, 0, 0);
#pragma unroll 1
  for (int first = 0; first < peers.degree; first += kAtOnce) {
    uint4* const from = peers.received + first * peers.slot_words + word;
    uint4 words[kAtOnce];
    int missing;
    do {
      missing = -1;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < peers.degree) words[i] = load_mailbox(from + i * peers.slot_words);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < peers.degree && !has_arrived(words[i])) missing = first + i;
      }
    } while (missing >= 0 && wait.more(peers, missing));
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i >= peers.degree) continue;
      store_mailbox(from + i * peers.slot_words,
                    make_uint4(kNotArrived, kNotArrived, kNotArrived, kNotArrived));
      add_bf16x2(v[0].x, v[0].y, words[i].x);
      add_bf16x2(v[0].z, v[0].w, words[i].y);
      add_bf16x2(v[1].x, v[1].y, words[i].z);
      add_bf16x2(v[1].z, v[1].w, words[i].w);
    }
  }
}

#endif

}  // namespace forerun::cuda
