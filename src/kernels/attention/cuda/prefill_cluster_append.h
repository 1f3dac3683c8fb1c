// The append of the step's own keys and values to the cache by a fused prefill cluster
// (attention/cuda/prefill_cluster.cu). Each cluster appends its item's rows, in warps without other
// work, and waits for the rows of the items before its own. Device code; only that kernel includes
// it.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/attention/cuda/load.h"
#include "kernels/attention/cuda/prefill_cluster_exchange.h"
#include "kernels/attention/cuda/prefill_load.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Appends the thread's share of an item's rows: two pieces of a key, half a head apart, and of its
// value.
template <class Layout>
__device__ __forceinline__ void append_rows(const AttentionArgs& args, const PrefillWork& work) {
  constexpr int kDim = Layout::kDim;
  constexpr int kThreads = kAppendingWarps * 32;  // appending threads of a block
  constexpr int kPairs = kDim / 16;               // threads per row
  constexpr int kAtOnce = Layout::kBlocks * kThreads / kPairs;
  const auto* const kv_slots = step_data<int32_t>(args.step, args.step->kv_slots_offset);
  const int thread = static_cast<int>(cluster_rank() * kThreads + threadIdx.x % kThreads);
  const int piece = thread % kPairs;
#pragma unroll 1
  for (int i = thread / kPairs; i < work.item.num_rows; i += kAtOnce) {
    const int row = work.item.first_row + i;
    const int slot = kv_slots[row];
    PieceAngles angles;
    angles.load(args.step, row, piece, kDim);
    wait_for_previous_kernel();
    if (slot < 0) continue;
    const auto* const key = reinterpret_cast<const uint4*>(args.qkv + row * args.qkv_stride +
                                                           args.k_offset + work.kv_head * kDim) +
                            piece;
    const auto* const value = reinterpret_cast<const uint4*>(
        reinterpret_cast<const __nv_bfloat16*>(key) + args.v_offset - args.k_offset);
    uint4 low = key[0];
    uint4 high = key[kPairs];
    const uint4 values[2] = {value[0], value[kPairs]};
    angles.rotate_pieces(low, high);
    std::byte* const stored = keys_of<kDim>(args, slot / kTilePositions, work.kv_head) +
                              slot % kTilePositions * kPanelRowBytes;
    const int to_low = kv_piece(piece, slot);
    const int to_high = kv_piece(piece + kPairs, slot);
    *reinterpret_cast<uint4*>(stored + to_low) = low;
    *reinterpret_cast<uint4*>(stored + to_high) = high;
    std::byte* const stored_value = stored + value_offset<kDim>(args);
    *reinterpret_cast<uint4*>(stored_value + to_low) = values[0];
    *reinterpret_cast<uint4*>(stored_value + to_high) = values[1];
  }
}

// Runs an appending warp's work on the cluster's item. The first such warp of a block then waits
// until all visible keys of this step are in the cache: rows ascend, so they are its own and those
// of the items before it. It announces this at kAppendedBarrier to the threads that copy tiles. The
// wait ends because all clusters are resident at once (max_prefill_clusters()) or, if other streams
// occupy some of the SMs, because the earlier clusters were launched earlier; if neither holds, the
// warp sets `failed` after a second.
template <class Layout>
__device__ __forceinline__ void append(const AttentionArgs& args, const PrefillWork& work,
                                       int item_idx, uint32_t shared) {
  const int lane = threadIdx.x % 32;
  const int heads = args.kv_heads * args.parts;
  if (work.part == 0) append_rows<Layout>(args, work);
  wait_for_previous_kernel();  // threads without a row have not waited yet
  fence_global_async_proxy();
  __syncwarp();
  const int first_part = work.kv_head * args.parts;  // the part that appends for all parts
  if (work.part == 0 && lane == 0) {
    arrive_release(args.arrivals + work.item.query_tile * heads + first_part, 1);
  }
  if (threadIdx.x / 32 % kAppendingWarps != 0) return;
  if (cluster_rank() == 0 && lane == 0)
    args.to_clear[work.item.query_tile * heads + first_part + work.part] = 0;
  const auto* const items = step_data<AttentionItemCuda>(args.step, args.step->prompt_items_offset);
#pragma unroll 1
  for (int i = lane; i <= item_idx; i += 32) {
    if (items[i].table != work.item.table) continue;  // item of another sequence
    const uint32_t* const arrivals = args.arrivals + items[i].query_tile * heads + first_part;
    if (!wait_acquire(arrivals, Layout::kBlocks * kAppendingWarps)) *args.failed = 1;
  }
  __syncwarp();
  if (lane == 0) barrier_arrive(shared + Layout::kAppendedBarrier);
}

#endif

}  // namespace forerun::cuda
