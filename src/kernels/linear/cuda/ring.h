// Pipelines of a block of the linear kernels: rings of weights and activations, and the exchange of
// partial sums. Only the linear kernels and their launches include it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "device/cuda/peer_mailboxes.h"
#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/rms_norm/cuda/rms_norm.h"

namespace forerun::cuda {

// The arguments of the kernel; LinearPlan and LinearLaunch explain the names.
struct LinearKernelArgs {
  const std::byte* weight;
  const uint16_t* input;
  uint16_t* output;
  float* output_f32;
  const __nv_bfloat16* bias;
  const __nv_bfloat16* residual;
  int64_t input_stride, output_stride;
  int rows, outputs;
  int units, cluster_size, slice_k_warps_log2;
  int cluster_tiles, larger_clusters;  // the first larger_clusters clusters have one more tile
  uint32_t opaque_zero;                // 0, which the compiler does not know
  int stages, segment_units, segment_bytes, segments, input_buffers, input_stride_bytes,
      slice_k_offset, receive_offset, ring_offset, receive_buffer_bytes;
  const int32_t* row_index;    // null: rows are in order
  const float* input_squares;  // null: no norm; norm_eps and inputs belong to it
  const uint2* group_sums;     // linear/cuda/group_sums.h; only if minima need them
  float norm_eps;
  int inputs;
  NormOutputCuda next_norm;
  ActivationFormat gated_format;
  PeerMailboxes peers;  // mailbox of this exchange; degree 0 without a group
  bool two_shot;        // linear/cuda/reduce.h
  bool gated;
  int warps, tile_warps;
  float inverse_inputs;             // 1 / inputs
  int block_units, smaller_blocks;  // units per tile: the first smaller_blocks blocks of a cluster
                                    // have block_units, the others one more
  uint32_t cluster_inverse;         // 2^16 / cluster_size, rounded up
  int receive_places;               // halves of fragments that a block owns
  int input_rows;                   // rows of a segment of activations in shared memory
};

// A layer's epilogue: fixed at compile time, or kRuntime, which the kernel reads from its
// arguments.
enum class EpilogueKind : uint8_t { kPlain, kGated, kRuntime };
template <EpilogueKind kEpilogue>
__device__ __forceinline__ bool ends_gated(const LinearKernelArgs& args) {
  return kEpilogue == EpilogueKind::kGated || (kEpilogue == EpilogueKind::kRuntime && args.gated);
}
template <EpilogueKind kEpilogue>
__device__ __forceinline__ bool ends_in_sum(const LinearKernelArgs& args) {
  return kEpilogue == EpilogueKind::kRuntime && args.peers.degree > 0;
}
template <EpilogueKind kEpilogue>
__device__ __forceinline__ bool ends_plain(const LinearKernelArgs& args) {
  return !ends_gated<kEpilogue>(args) && !ends_in_sum<kEpilogue>(args);
}

// Returns the row of the input for row `row` of the output.
__device__ __forceinline__ int input_row(const LinearKernelArgs& args, int row) {
  return args.row_index == nullptr ? row : args.row_index[row];
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

inline constexpr int kHalfLanesLog2 = 4;  // lanes of half a fragment of 8 rows
inline constexpr int kHalfLanes = 1 << kHalfLanesLog2;

// The range of units of each tile that block `cta_rank` of a cluster multiplies.
struct BlockUnits {
  int first, count;
  __device__ __forceinline__ BlockUnits(const LinearKernelArgs& args, int cta_rank)
      : first(cta_rank * args.block_units + max(0, cta_rank - args.smaller_blocks)),
        count(args.block_units + (cta_rank >= args.smaller_blocks ? 1 : 0)) {}
};

// The ring of one warp, through which its units pass in the order of multiplication (tile after
// tile, a tile's inputs in order). Every lane keeps the same state; an elected lane issues the bulk
// copies. kOneTile says that the warp has at most one tile, which saves registers.
template <int kUnitBytes, int kStageBytes, bool kOneTile>
struct UnitRing {
  const std::byte* next;         // next unit to request
  int tile_skip;                 // units between the end of a tile's units and the warp's next tile
  int tile_units, left_in_tile;  // units per tile; units left in the requested tile
  int to_request, to_use;
  uint64_t policy;
  uint32_t data, data_end, barrier;  // the current stage
  uint32_t parity = 0;

  __device__ __forceinline__ void request(const LinearKernelArgs& args, uint32_t into,
                                          uint32_t into_barrier) {
    if (elected() && to_request > 0) {
      barrier_arrive_expect_tx(into_barrier, kUnitBytes);
      bulk_copy_streaming(into, next, kUnitBytes, into_barrier, policy);
    }
    --to_request;
    next += kUnitBytes << args.slice_k_warps_log2;
    if (kOneTile) return;
    if (--left_in_tile == 0) {
      left_in_tile = tile_units;
      next += static_cast<int64_t>(tile_skip) * kUnitBytes;
    }
  }
  __device__ __forceinline__ void wait() const { barrier_wait(barrier, parity); }
  // Requests another unit into the stage of the current unit. `loaded` is a word of the last vector
  // that was loaded from this stage. A load may wait behind other requests for longer than a copy
  // from the L2 takes, so the address of the copy depends on the loaded word.
  __device__ __forceinline__ void release(const LinearKernelArgs& args, uint32_t loaded) {
    __syncwarp();
    request(args, data + (loaded & args.opaque_zero), barrier);
    data += kStageBytes;
    barrier += 8;
    if (data == data_end) {
      data -= args.stages * kStageBytes;
      barrier -= args.stages * 8;
      parity ^= 1;
    }
  }
};

// The ring of a block's activations: several segments of its inputs at a time, one bulk copy per
// row. If there are as many buffers as segments, the segments stay; otherwise each pass over the
// tiles loads them again.
template <int kN8Tiles, bool kOneSegment>
struct InputRing {
  uint32_t data, full, empty;    // buffer 0 and the barriers of all buffers
  const uint16_t* block_inputs;  // the block's inputs of row 0
  int block_bytes;               // bytes per row
  int first_row, rows;
  int left;                      // segments still to request, in all passes
  int next = 0, next_begin = 0;  // buffer and byte of a row of the next request
  uint32_t next_parity = 0;      // parity of the buffer's empty barrier

  static __device__ __forceinline__ int buffer_rows(const LinearKernelArgs& args) {
    return kN8Tiles == 1 ? args.input_rows : 8 * kN8Tiles;
  }
  // If a block has fewer inputs than others of its cluster, its last segment may be empty.
  __device__ __forceinline__ int segment_bytes(const LinearKernelArgs& args, int begin) const {
    return kOneSegment ? block_bytes : max(0, min(args.segment_bytes, block_bytes - begin));
  }
  __device__ __forceinline__ int first_segments(const LinearKernelArgs& args) const {
    return kOneSegment ? 1 : min(left, args.input_buffers);
  }

  // State for the first segments. Every warp issues the copies of some of the rows, since copies of
  // one warp wait for one another. prepare() does everything that does not depend on the previous
  // kernel's output while that kernel still runs, where time costs nothing; opaque() keeps the
  // compiler from moving this work behind the wait.
  struct First {
    const uint16_t* from;  // the lane's row, if it has one
    uint32_t to;
    int row;  // row of the block
  };
  __device__ __forceinline__ First prepare(const LinearKernelArgs& args, int warp, int lane) const {
    if (threadIdx.x == 0) {
#pragma unroll 1
      for (int i = 0; i < first_segments(args); ++i) {
        barrier_arrive_expect_tx(full + i * 8, segment_bytes(args, i * args.segment_bytes) * rows);
      }
    }
    const int row = lane * args.warps + warp;
    return {.from = opaque(block_inputs + (first_row + row) * args.input_stride),
            .to = opaque(data + row * args.input_stride_bytes),
            .row = row};
  }
  // Applies args.row_index. Call it after wait_for_previous_kernel().
  __device__ __forceinline__ void gather(const LinearKernelArgs& args, First& first) const {
    if (first.row < rows) {
      first.from = block_inputs + args.row_index[first_row + first.row] * args.input_stride;
    }
  }
  // Copies the lane's row of the first segments. Bytes may arrive before the barrier expects them,
  // since the phase cannot end without thread 0's arrival in prepare().
  __device__ __forceinline__ void request_first(const LinearKernelArgs& args, const First& first) {
    if (first.row < rows) {
#pragma unroll 1
      for (int i = 0; i < first_segments(args); ++i) {
        const int begin = i * args.segment_bytes;
        const int bytes = segment_bytes(args, begin);
        if (bytes > 0) {
          bulk_copy(first.to + i * buffer_rows(args) * args.input_stride_bytes,
                    first.from + begin / 2, bytes, full + i * 8);
        }
      }
    }
    if (!kOneSegment) count_first(args);
  }
  __device__ __forceinline__ void count_first(const LinearKernelArgs& args) {
    left -= first_segments(args);
    next_begin = args.input_buffers < args.segments ? args.input_buffers * args.segment_bytes : 0;
  }

  // Requests the next segment once all warps have released its buffer. All lanes of a warp call it.
  __device__ __forceinline__ void refill(const LinearKernelArgs& args, int lane) {
    barrier_wait(empty + next * 8, next_parity);
    const uint32_t barrier = full + next * 8;
    const int bytes = segment_bytes(args, next_begin);
    if (lane == 0) barrier_arrive_expect_tx(barrier, bytes * rows);
    __syncwarp();
    if (lane < rows && bytes > 0) {
      bulk_copy(
          data + (next * buffer_rows(args) + lane) * args.input_stride_bytes,
          block_inputs + input_row(args, first_row + lane) * args.input_stride + next_begin / 2,
          bytes, barrier);
    }
    --left;
    if (++next == args.input_buffers) {
      next = 0;
      next_parity ^= 1;
    }
    next_begin += args.segment_bytes;
    if (next_begin >= args.segments * args.segment_bytes) next_begin = 0;
  }
};

// The exchange of partial sums: a lane sends them to the block of the cluster that adds them up.
// Blocks own halves of fragments (16 lanes: 16 outputs of 8 rows, whose squares are added together)
// round-robin: for any cluster size, the block of CTA rank r owns the halves with index r, r +
// size, ...
struct PartialSums {
  uint32_t buffer, barrier;  // this block's receive buffer and the barrier that counts its bytes
  int cta_rank;

  // Returns the offset in the receive buffer. `place` is the index among the halves that a block
  // owns.
  static __device__ __forceinline__ uint32_t offset(const LinearKernelArgs& args, int source,
                                                    int part, int place, int lane) {
    return static_cast<uint32_t>((((source * 2 + part) * args.receive_places + place) * kHalfLanes +
                                  (lane & (kHalfLanes - 1))) *
                                 16);
  }
  // Returns the `place` of the half with index `index`, which must be less than 2^16 / size.
  static __device__ __forceinline__ int place(const LinearKernelArgs& args, int index) {
    return static_cast<int>(static_cast<uint32_t>(index) * args.cluster_inverse >> 16);
  }
  // Returns the bytes that this block receives for `fragments` fragments.
  __device__ __forceinline__ int bytes(const LinearKernelArgs& args, int fragments) const {
    return place(args, 2 * fragments + args.cluster_size - 1 - cta_rank) * args.cluster_size *
           (2 * kHalfLanes * 16);
  }
  __device__ __forceinline__ void push(const LinearKernelArgs& args, int part, int fragment,
                                       int lane, float4 v) const {
    const int index = 2 * fragment + (lane >> kHalfLanesLog2);
    const int at = place(args, index);
    const auto owner = static_cast<uint32_t>(index - at * args.cluster_size);
    store_peer_16(peer_address(buffer + offset(args, cta_rank, part, at, lane), owner),
                  peer_address(barrier, owner), v);
  }
};

#endif

}  // namespace forerun::cuda
