// The last steps of the linear kernels: warps send partial sums to the blocks that own them; these
// add them up and write outputs. Device code; only the linear kernels include it.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/item.h"
#include "kernels/linear/cuda/norm.h"
#include "kernels/linear/cuda/reduce.h"
#include "kernels/linear/cuda/ring.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Sends this rank's sums, in the layout of finish_sums(), to the ranks that add them up.
__device__ __forceinline__ void push_item(const LinearKernelArgs& args, const OutputItem& item,
                                          const float4 (&v)[2]) {
  if (item.row >= args.rows) return;
  const int64_t word = mailbox_word(args, item.tile, item.row, item.lane);
  if (args.two_shot) {
    store_mailbox(args.peers.send[adding_rank(args.peers, word)] + word, pack_word(v));
  } else {
    push_to_peers(args.peers, word, pack_word(v), /*own=*/true);
  }
}

// Receives an item that push_item() of all ranks has sent, and writes its outputs, after all sums
// of the block have been sent. With two shots it runs twice: first with `adds`, for the words that
// this rank adds up; then, after all items of the block, without `adds` for the words of other
// ranks. For whole warps.
__device__ __forceinline__ void store_group_item(const LinearKernelArgs& args, OutputItem item,
                                                 bool adds, PeerWait& wait) {
  const int64_t word = mailbox_word(args, item.tile, item.row, item.lane);
  const int from = args.two_shot ? adding_rank(args.peers, word) : args.peers.rank;
  if ((from == args.peers.rank) != adds) item.row = args.rows;
  item.load(args);
  float4 v[2] = {};
  if (item.row < args.rows) {
    if (adds) {
      collect_from_peers(args.peers, word, wait, v);
      finish_sums(args, item, v);
      if (args.two_shot) push_to_peers(args.peers, word, pack_word(v), /*own=*/false);
    } else {
      unpack_word(receive_outputs(args.peers, word, from, wait), v);
    }
  }
  store_plain(args, item, v);
}

// Sends a warp's sums of a tile to their owners. If several warps share the tile (slice-K), each
// first stores its sums in its part of shared memory; the parts begin at `parts`, `part_bytes`
// apart. They are then added in the order of the warps: half of the outputs at a time, or all at
// once if there is only one pass, after which the parts are not written again.
template <int kN8Tiles, bool kOnePass>
__device__ __forceinline__ void send_sums(const LinearKernelArgs& args, const PartialSums& sums,
                                          const float (&acc)[2][kN8Tiles][4], uint32_t parts,
                                          int part_bytes, int tile_warp, int input_warp,
                                          int slice_k_warps, int lane) {
  if (slice_k_warps == 1) {
#pragma unroll
    for (int n = 0; n < kN8Tiles; ++n) {
      sums.push(args, 0, tile_warp * kN8Tiles + n, lane, as_float4(acc[0][n]));
      sums.push(args, 1, tile_warp * kN8Tiles + n, lane, as_float4(acc[1][n]));
    }
    return;
  }
  constexpr int kHalves = kOnePass ? 2 : 1;  // halves at a time
  constexpr int kHalfVectors = kN8Tiles * 32;
#pragma unroll
  for (int first = 0; first < 2; first += kHalves) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int n = 0; n < kN8Tiles; ++n) {
        store_shared_sums(
            parts + input_warp * part_bytes + ((half * kN8Tiles + n) * 32 + lane) * 16,
            acc[first + half][n]);
      }
    }
    named_barrier(1 + tile_warp, slice_k_warps * 32);
#pragma unroll 1
    for (int f = input_warp * 32 + lane; f < kHalves * kHalfVectors; f += slice_k_warps * 32) {
      uint32_t part = parts + f * 16;
      float4 sum = load_shared_sums(part);
#pragma unroll 1
      for (int other = 1; other < slice_k_warps; ++other) {
        part += part_bytes;
        add(sum, load_shared_sums(part));
      }
      sums.push(args, first + f / kHalfVectors, tile_warp * kN8Tiles + f % kHalfVectors / 32, lane,
                sum);
    }
    // Before the parts are overwritten.
    if (!kOnePass) named_barrier(1 + tile_warp, slice_k_warps * 32);
  }
}

// Waits for the partial sums of item `index` from the cluster's blocks, adds them up in the order
// of the blocks, and writes the outputs or sends the sums to the group of GPUs. `parity` is the
// parity of the barrier of `sums`. For whole warps.
template <EpilogueKind kEpilogue, int kN8Tiles>
__device__ __forceinline__ void store_item(const LinearKernelArgs& args, const PartialSums& sums,
                                           uint32_t parity, const InverseRms& scales,
                                           const OutputItems<kN8Tiles>& items, int index,
                                           const OutputItem& item) {
  barrier_wait(sums.barrier, parity);  // even if the warp has no item; linear_kernel() explains why
  if (args.input_squares != nullptr) barrier_wait(scales.ready, 0);
  if (!items.warp_has(index)) return;
  const int place = items.place(index);
  float4 v[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    v[half] = load_shared_sums(sums.buffer + sums.offset(args, 0, half, place, item.lane));
  }
  // Unrolled by this number; fewer sources would spill registers at 16 rows.
  constexpr int kSources = kN8Tiles == 1 ? 1 : 2;
#pragma unroll kSources
  for (int source = 1; source < args.cluster_size; ++source) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      add(v[half],
          load_shared_sums(sums.buffer + sums.offset(args, source, half, place, item.lane)));
    }
  }
  if (ends_in_sum<kEpilogue>(args)) {
    push_item(args, item, v);
    return;
  }
  scales.apply(args, items.block_row(index, item.lane), v);
  if (ends_gated<kEpilogue>(args)) {
    store_gated(args, item.tile, item.lane >> 2, item.row, v);
  } else {
    finish_sums(args, item, v);
    store_plain(args, item, v);
  }
}

// Does the same for item `index`, which has been loaded, and all later items of the thread.
template <EpilogueKind kEpilogue, int kN8Tiles>
__device__ __forceinline__ void store_sums(const LinearKernelArgs& args, const PartialSums& sums,
                                           uint32_t parity, const InverseRms& scales,
                                           const OutputItems<kN8Tiles>& items, int index,
                                           OutputItem item) {
#pragma unroll 1
  for (;;) {
    store_item<kEpilogue>(args, sums, parity, scales, items, index, item);
    index += args.warps * 32;
    if (!items.warp_has(index)) return;
    item = items.at(args, index);
    if (ends_plain<kEpilogue>(args)) item.load(args);
  }
}

// Does the same for all items of the thread.
template <EpilogueKind kEpilogue, int kN8Tiles>
__device__ __forceinline__ void store_sums(const LinearKernelArgs& args, const PartialSums& sums,
                                           uint32_t parity, const InverseRms& scales,
                                           const OutputItems<kN8Tiles>& items) {
  int index = items.first();
#pragma unroll 1
  do {
    OutputItem item = items.at(args, index);
    if (ends_plain<kEpilogue>(args)) item.load(args);
    store_item<kEpilogue>(args, sums, parity, scales, items, index, item);
    index += args.warps * 32;
  } while (items.warp_has(index));
}

// Completes the all-reduce of a group of GPUs, after all sums of the block have been sent: adds up
// the group's sums of `items` and writes the outputs.
template <int kN8Tiles>
__device__ __forceinline__ void store_group_sums(const LinearKernelArgs& args,
                                                 const OutputItems<kN8Tiles>& items) {
  PeerWait wait;
#pragma unroll 1
  for (int shot = 0; shot <= (args.two_shot ? 1 : 0); ++shot) {
#pragma unroll 1
    for (int index = items.first(); items.warp_has(index); index += args.warps * 32) {
      store_group_item(args, items.at(args, index), /*adds=*/shot == 0, wait);
    }
  }
  finish_collecting(args.peers);
}

#endif

}  // namespace forerun::cuda
