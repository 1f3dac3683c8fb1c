// Prefix items of up to 64 columns in the kernel of attention over shared prefixes
// (attention/cuda/shared.cu): one warpgroup computes probabilities from keys, the other adds
// values, a tile behind. A single warpgroup for both would take longer for a tile than memory does,
// and the registers of both tasks together would leave no room beside a linear layer's 16 warps.
// Device code; only that kernel includes it.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/merge.h"
#include "kernels/attention/cuda/shared_load.h"
#include "kernels/attention/cuda/shared_prefix.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Slots through which one warpgroup passes a tile's probabilities to the other, laid out as an
// operand of wgmma, with the factors by which the sums of values shrink.
template <int kDim>
struct WeightSlots {
  using Layout = SharedLayout<kDim>;
  static_assert(Layout::kProbs + Layout::kProbSlots * Layout::kProbBytes <= Layout::kRing);
  uint32_t shared;
  uint32_t tile = 0;

  __device__ __forceinline__ uint32_t slot() const { return tile % Layout::kProbSlots; }
  __device__ __forceinline__ uint32_t parity() const { return tile / Layout::kProbSlots & 1; }
  // Returns the address of the slot's filled barrier; the free barrier follows 8 bytes later.
  __device__ __forceinline__ uint32_t barrier() const {
    return shared + Layout::kProbBarriers + slot() * 16;
  }
  __device__ __forceinline__ uint32_t probs() const {
    return shared + Layout::kProbs + slot() * Layout::kProbBytes;
  }
  __device__ __forceinline__ uint32_t rescale_at(int column) const {
    return shared + Layout::kRescales + (slot() * 64 + column) * 4;
  }
  // Writes the tile's probabilities and factors; tell() announces them.
  __device__ __forceinline__ void put(const uint32_t (&probs_of)[4][4], const float (&rescale)[2],
                                      int warp, int lane) {
    barrier_wait(barrier() + 8, parity() ^ 1);
    const int column = warp * 16 + lane % 16;
    const uint32_t row = probs() + column * kPanelRowBytes;
#pragma unroll
    for (int c = 0; c < 4; ++c)
      store_matrices(row + kv_piece(2 * c + lane / 16, column), probs_of[c]);
    if (lane % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        store_shared_4(rescale_at(warp * 16 + lane / 4 + 8 * i), __float_as_uint(rescale[i]));
      }
    }
    fence_async_proxy();
  }
  __device__ __forceinline__ void tell() {
    barrier_arrive(barrier());
    ++tile;
  }
};

// Runs the first warpgroup, which computes probabilities of the block's prefix items.
template <int kDim, bool kFused>
__device__ __forceinline__ void exponentiate_prefixes(const AttentionArgs& args, uint32_t shared,
                                                      SharedRing<kDim>& ring) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const uint32_t queries = shared + SharedLayout<kDim>::kQueries;
  WeightSlots<kDim> slots = {shared};
  bool waited = !args.early;
  for (int index = 0;; ++index) {
    const PrefixWork work = take_work<kDim>(shared, index);
    if (work.num_rows == 0) break;
    const PrefixColumns columns(args, work, 0, work.num_rows);
    stage_prefix_queries<kDim, kFused>(args, work, 0, work.num_rows, queries, waited);
    ColumnSoftmax sums;
    sums.clear();
    for (int tile = 0; tile < work.tiles; ++tile) {
      float score[8][4];
      const uint32_t half_tile = ring.half_tile + keys_half_tile(tile);
      score_tile<kDim>(score, queries, kPanelBytes, ring.wait_in_order(half_tile));
      ring.release(half_tile, 2);
      scale_scores(score, args.scale_log2);
      columns.hide(args, score, work.first_tile + tile, lane);
      uint32_t probs[4][4];
      float rescale[2];
      exponentiate_scores<2>(score, sums, probs, rescale);
      slots.put(probs, rescale, warp, lane);
      if (tile + 1 == work.tiles) {  // after that fence, which would wait for the stores
        sums.reduce_lanes();
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (!columns.is_there[i]) continue;
          store_partial_softmax<kDim>(args, sums, i, columns.partial(work, i), work.head,
                                      columns.own_head[i], lane);
        }
      }
      slots.tell();
    }
    ring.half_tile += 2 * work.tiles;
  }
  if (!waited) wait_for_previous_kernel();
}

// Runs the second warpgroup, which sums values. It announces the partial results of both
// warpgroups, since the first stores its own before its last probabilities. It waits for the
// previous kernel, which may still read partial results.
template <int kDim>
__device__ __forceinline__ void add_prefixes(const AttentionArgs& args, uint32_t shared,
                                             SharedRing<kDim>& ring) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32 - 4;
  WeightSlots<kDim> slots = {shared};
  bool waited = !args.early;
  for (int index = 0;; ++index) {
    const PrefixWork work = take_work<kDim>(shared, index);
    if (work.num_rows == 0) break;
    const PrefixColumns columns(args, work, 0, work.num_rows);
    if (!waited) wait_for_previous_kernel();
    waited = true;
    float out[kDim / 8][4];
    clear_sums<kDim>(out);
    for (int tile = 0; tile < work.tiles; ++tile) {
      barrier_wait(slots.barrier(), slots.parity());
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t rescale = load_shared_4(slots.rescale_at(warp * 16 + lane / 4 + 8 * i));
        rescale_sums<kDim>(out, i, __uint_as_float(rescale));
      }
      const uint32_t half_tile = ring.half_tile + values_half_tile(tile, work.tiles);
      const uint64_t values = wgmma_values(wgmma_uniform(ring.wait_in_order(half_tile)));
      const uint64_t probs = wgmma_descriptor<64>(wgmma_uniform(slots.probs()));
      wgmma_fence();
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        wgmma_add_values(out, wgmma_advance(probs, c * 32),
                         wgmma_advance(values, c * 16 * kPanelRowBytes));
      }
      wgmma_commit();
      wgmma_wait(out);
      barrier_arrive(slots.barrier() + 8);
      ++slots.tile;
      ring.release(half_tile, 2);
    }
    ring.half_tile += 2 * work.tiles;
    if (work.tiles > 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (!columns.is_there[i]) continue;
        store_partial_values<kDim>(args, out, i, columns.partial(work, i), work.head,
                                   columns.own_head[i], lane);
      }
    }
    announce_prefix(args, work, 2);
  }
  if (!waited) wait_for_previous_kernel();
}

#endif

}  // namespace forerun::cuda
