// All-reduce over a group of GPUs inside the linear kernels (linear/cuda/linear.cu,
// linear/cuda/tiles.cu), through mailboxes (device/cuda/peer_mailboxes.h). A 16-byte word holds one
// lane's share of a fragment, 4 outputs of 2 rows. One thread pushes it as soon as it is complete
// and one thread polls it, without any barrier. Device code; only the kernels include it.
//
// One-shot, for few rows: a rank sends its sums to all ranks, and each rank adds up all words.
// Two-shot, for more rows (LinearKernelArgs::two_shot): a rank sends its sums of a word to one
// rank, which adds them up and sends the outputs, with bias and residual, to the others. This takes
// a second trip over the links but, with four GPUs, half of the bytes; the bits are the same. A
// word of outputs travels in its sender's slot. That slot also receives sums, but only of words
// that the receiver adds up itself, so no two words share a place. A rank takes all words that it
// adds up before it waits for outputs, so ranks never wait for each other in a cycle.
//
// Blocks wait for blocks of other GPUs with the same tile of rows. Tiles of rows follow from the
// number of rows alone (plan_launch), not from a rank's shard of the inputs. There is no deadlock:
// a GPU starts blocks in the order of their index, all blocks of a tile of rows fit at once (for
// linear_tiles_kernel, all blocks of the launch), and dependent kernels start only after all blocks
// of this kernel have started. So the first unfinished tile of rows always makes progress.
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

// Returns the index in a slot of the word of lane `from` of a fragment. The fragment's 8 rows
// contain `row`.
__device__ __forceinline__ int64_t mailbox_word(const LinearKernelArgs& args, int tile, int row,
                                                int from) {
  return (static_cast<int64_t>(tile) * ((args.rows + 7) >> 3) + (row >> 3)) * 32 + from;
}

// Returns the rank that adds up a word with two shots. It is the same for a whole fragment, so that
// the squares that write_squares() adds together stay on one rank.
__device__ __forceinline__ int adding_rank(const PeerMailboxes& peers, int64_t word) {
  return static_cast<int>(word >> 5) % peers.degree;
}

// Packs v, in the layout of store_plain().
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

// Sends a word to the other ranks and, if `own`, last to this rank.
__device__ __forceinline__ void push_to_peers(const PeerMailboxes& peers, int64_t word,
                                              uint4 packed, bool own) {
  int to = peers.rank;
#pragma unroll 1
  for (int i = own ? 0 : 1; i < peers.degree; ++i) {
    if (++to == peers.degree) to = 0;
    store_mailbox(peers.send[to] + word, packed);
  }
}

// Receives a word from all ranks and adds up the sums in rank order.
__device__ __forceinline__ void collect_from_peers(const PeerMailboxes& peers, int64_t word,
                                                   PeerWait& wait, float4 (&v)[2]) {
  constexpr int kInFlight = 4;  // ranks whose words are loaded together
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

// Receives a word of outputs that rank `from` has added up.
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
