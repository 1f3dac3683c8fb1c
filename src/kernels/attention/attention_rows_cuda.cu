// A warp takes one row and the up to 8 query heads of one key/value head: keys are the 16-row
// operand of mma.m16n8k16, the heads its 8 columns, so the instruction's shape is the same for any
// number of rows. Tiles of 64 keys and values below the rows' boundary are copied whole into shared
// memory, for all rows of a group; what lies in the tree is gathered by each row for itself, 16
// positions at a time, in the order of its own ancestors.
//
// Floor: the cache's bytes over the memory's bandwidth for long contexts; for short ones the chain
// queries -> scores -> partial result -> flag -> merge, each a trip through the L2.
//  - one block an SM, each with about half of its shared memory: the next linear layer finds one
//    place free on every SM (linear_cuda.cu), and every block is resident, so that blocks may wait
//    for one another;
//  - the cache's tiles are requested before the previous kernel's end is awaited;
//  - for few rows (kFused) the kernel rotates queries and keys itself, from the linear layer's
//    output, and writes the step's keys and values to the cache: one kernel less in the chain;
//  - partial results go through the L2 in the order in which the lanes hold them, and every block
//    merges a share of them once the blocks that it needs have arrived (SwiftSpec's combination in
//    the same launch).
#include <cuda_bf16.h>

#include <algorithm>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_args_cuda.h"
#include "kernels/attention/attention_keys_cuda.h"
#include "kernels/attention/attention_load_cuda.h"
#include "kernels/attention/attention_merge_cuda.h"
#include "kernels/attention/attention_row_cuda.h"
#include "kernels/attention/attention_rows_cuda.h"
#include "kernels/launch_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// One tile of 64 positions joins a row's span. `shared_tile`: the prefix's keys and values of the
// tile, where the item shares it.
template <int kDim, class Rest>
__device__ __forceinline__ void attend_tile(const AttentionArgs& args, const RowTask<kDim>& task,
                                            int tile, uint32_t shared_tile, const Rest& rest,
                                            int lane, RowSum<kDim>& sum) {
  const int begin = tile * kTilePositions;
  const int g = lane >> 2;
  const int chunks = min((task.row.position - begin) / kChunk + 1, kChunks);
  const int shared_chunks = min(max(task.row.boundary - begin, 0) / kChunk, chunks);
  if (shared_chunks < chunks) rest.prepare(shared_chunks);

  float score[kChunks][4];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (c < shared_chunks) {
      const int key = c * kChunk + score_key(lane);
      const uint32_t row = shared_tile + key * kPanelRowBytes;
      score_chunk<kDim>(
          task,
          [&](int s) { return load_matrices(row + kv_piece(s * 2 + score_piece(lane), key)); },
          score[c]);
    } else if (c < chunks) {
      rest.score(c, shared_tile, score[c]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[c][i] = kNothing;
    }
  }

  // Positions that the row does not see.
  const int first_seen = args.window > 0 ? task.row.position - args.window + 1 : 0;
  float most[2] = {kNothing, kNothing};
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = begin + c * kChunk + g + (i >> 1) * 8;
      score[c][i] = position <= task.row.position && position >= first_seen
                        ? __fmul_rn(score[c][i], args.scale_log2)
                        : kNothing;
      most[i & 1] = fmaxf(most[i & 1], score[c][i]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) {
      most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], lanes));
    }
    // A tile that a row works on has a key that it sees, so `most` is finite.
    most[i] = fmaxf(most[i], sum.most[i]);
    const float shrink = power_of_two(sum.most[i] - most[i]);
    sum.most[i] = most[i];
    float weight = 0.0f;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& s = score[c][half * 2 + i];
        s = power_of_two(s - most[i]);
        weight = __fadd_rn(weight, s);
      }
    }
    sum.weight[i] = __fmaf_rn(sum.weight[i], shrink, weight);
#pragma unroll
    for (int m = 0; m < kDim / 16; ++m) {
      sum.out[m][i] *= shrink;
      sum.out[m][i + 2] *= shrink;
    }
  }

#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (c < shared_chunks) {
      const int key = c * kChunk + value_key(lane);
      add_chunk<kDim>(sum, score[c], shared_tile + tile_bytes(kDim) + key * kPanelRowBytes, key,
                      kTilePositions, lane);
    } else if (c < chunks) {
      rest.add(c, shared_chunks, shared_tile, score[c], sum);
    }
  }
}

// Registers a thread: beside this kernel's block an SM has room for one of a linear layer
// (linear_cuda.cu). Many rows have no need of that.
constexpr int registers(int dim, AttentionMode mode) {
  return mode == AttentionMode::kWhole || dim > 128 ? 255 : 144;
}

template <int kDim, AttentionMode kMode>
__global__ void __maxnreg__(registers(kDim, kMode))
    attention_kernel(const __grid_constant__ AttentionArgs args) {
  constexpr bool kWhole = kMode == AttentionMode::kWhole;
  constexpr bool kFused = kMode == AttentionMode::kFused;
  using Loader = TileLoader<kDim, kFused>;
  extern __shared__ __align__(128) std::byte shared[];
  const uint32_t base = shared_address(shared);
  const uint32_t tiles = base + kAttentionBarrierBytes;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const uint32_t own = tiles + args.stages * 2 * tile_bytes(kDim);
  const uint32_t list = own + 2 * kMostExtras * kDim * 2 + warp * kMostExtras;
  const int heads = args.kv_heads * args.parts;
  if (threadIdx.x == 0) {
    for (int i = 0; i < args.stages; ++i) barrier_init(base + i * 8, 1);
    barrier_init_fence();
  }

  Loader loader;
  loader.data = tiles;
  loader.barriers = base;
  loader.work = blockIdx.x;
  int in_flight = 0;
  if (!args.early) wait_for_previous_kernel();
  const int num_items = args.step->num_items;
  if (threadIdx.x == 0 && loader.work < num_items * heads) {
    loader.load_item(args, heads);
    while (in_flight < args.stages && loader.find(args, num_items, heads) &&
           (!args.early || loader.is_stable())) {
      loader.request(args, heads);
      ++in_flight;
    }
  }
  if (args.early) wait_for_previous_kernel();
  launch_dependents();
  if (threadIdx.x == 0) {
    while (in_flight < args.stages && loader.find(args, num_items, heads)) {
      loader.request(args, heads);
      ++in_flight;
    }
  }
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < args.step->num_groups * heads;
       i += gridDim.x * kThreads) {
    args.to_clear[i] = 0;
  }
  __syncthreads();  // barriers are initialized

  int stage = 0;
  uint32_t parity = 0;
  for (int work = blockIdx.x; work < num_items * heads; work += gridDim.x) {
    const AttentionItemCuda item =
        step_data<AttentionItemCuda>(args.step, args.step->items_offset)[work / heads];
    const int head = work % heads;
    const bool has_row = warp < item.num_rows;
    const int row_idx = item.first_row + warp;
    RowTask<kDim> task;
    RowSum<kDim> span;
    [[maybe_unused]] RowSum<kDim> total;
    int first_tile = 0;
    [[maybe_unused]] bool started = false;
    if (has_row) {
      load_row<kDim>(args, row_idx, task);
      load_queries<kDim, kFused>(args, row_idx, head, lane, task);
      const int first_seen = args.window > 0 ? max(task.row.position - args.window + 1, 0) : 0;
      first_tile = first_seen / kTilePositions;
    }
    if constexpr (kFused) {
      __syncthreads();  // nobody reads the last item's extras
      if (item.num_extras > 0) {
        if (has_row) {
          for (int i = lane; i <= task.row.position - task.row.boundary; i += 32) {
            store_shared_byte(list + i, task.ancestors[i]);
          }
        }
        stage_extras<kDim>(args, item, head / args.parts, own, warp, lane);
        __syncthreads();
      }
    }
    [[maybe_unused]] const std::byte* const keys =
        args.kv + int64_t{head / args.parts} * tile_bytes(kDim);
    span.clear();
    for (int tile = Loader::begin_tile(args, item); tile < item.end_tile; ++tile) {
      const bool shares = Loader::shares(item, tile);
      if (shares) barrier_wait(base + stage * 8, parity);
      if (has_row && tile >= first_tile && tile * kTilePositions <= task.row.position) {
        const uint32_t shared_tile = tiles + stage * 2 * tile_bytes(kDim);
        if constexpr (kFused) {
          const StagedRows<kDim> rest{.task = task,
                                      .extras = own,
                                      .list = list,
                                      .begin = tile * kTilePositions,
                                      .lane = lane};
          attend_tile<kDim>(args, task, tile, shared_tile, rest, lane, span);
        } else {
          const GatheredRows<kDim> rest{.task = task,
                                        .keys = keys,
                                        .block_stride = args.block_stride,
                                        .value_offset = int64_t{args.kv_heads} * tile_bytes(kDim),
                                        .own_values = own + warp * chunk_bytes(kDim),
                                        .begin = tile * kTilePositions,
                                        .lane = lane};
          attend_tile<kDim>(args, task, tile, shared_tile, rest, lane, span);
        }
        if (ends_span(task.row.position, tile)) {
          span.close();
          if constexpr (!kWhole) {
            store_partial<kDim>(span,
                                args.partials +
                                    (task.row.first_partial + span_of(task.row.position, tile)) *
                                        args.partial_floats +
                                    head * (kDim * 8 + 16),
                                lane);
          } else if (started) {
            merge<kDim>(total, span);
          } else {
            total = span;
            started = true;
          }
          span.clear();
        }
      }
      if (shares) {
        __syncthreads();  // everybody is done with the stage
        if (threadIdx.x == 0 && loader.find(args, num_items, heads)) loader.request(args, heads);
        if (++stage == args.stages) {
          stage = 0;
          parity ^= 1;
        }
      }
    }
    if constexpr (kWhole) {
      if (has_row) {
#pragma unroll
        for (int m = 0; m < kDim / 16; ++m) {
          store_attended(args, row_idx, head, m * 16, total.out[m], total.weight, lane);
        }
      }
    } else {
      __syncthreads();  // every warp's partial results are written
      if (threadIdx.x == 0) arrive_release(args.arrivals + item.group * heads + head);
    }
  }

  if constexpr (kWhole) return;
  // A share of the merging: a warp takes 16 dimensions of one row.
  constexpr int kParts = kDim / 16;
  const int units = args.step->num_rows * heads * kParts;
  // Few go to as many SMs; of more, blocks that have none leave their room to the next layer. The
  // tiles' room is free, since the block is done with its items: the warps with a share divide it.
  const int grid = static_cast<int>(gridDim.x);
  const bool spread = units <= grid;
  const int room = shared_bytes(kDim, kFused, args.stages) - kAttentionBarrierBytes;
  const int ahead = room / ((spread ? 1 : kWarps) * kMergeBytes);
  const auto* const rows = step_data<AttentionRowCuda>(args.step, args.step->rows_offset);
  const int first = spread ? warp * grid + static_cast<int>(blockIdx.x)
                           : static_cast<int>(blockIdx.x) * kWarps + warp;
  for (int unit = first; unit < units; unit += grid * kWarps) {
    const int row_idx = unit / (heads * kParts);
    const int head = unit / kParts % heads;
    const AttentionRowCuda row = rows[row_idx];
    const bool arrived = wait_acquire(args.arrivals + row.group * heads + head,
                                      static_cast<uint32_t>(row.group_items));
    if (!arrived) {
      if (lane == 0) *args.failed = 1;
      return;
    }
    __syncwarp();
    merge_partials<kDim>(args, row_idx, row, head, unit % kParts, lane,
                         tiles + warp * ahead * kMergeBytes, ahead);
  }
}

#else

// Below sm_90 there is neither a bulk copy nor dependent launch; never launched there.
template <int kDim, AttentionMode kMode>
__global__ void attention_kernel(const __grid_constant__ AttentionArgs) {}

#endif

constexpr int kSharedLimit = 227 * 1024;  // of a block, sm_90

using Kernel = void (*)(AttentionArgs);

template <AttentionMode kMode>
Kernel kernel_for(int padded_dim) {
  if constexpr (kMode == AttentionMode::kFused) {
    return padded_dim == 64 ? attention_kernel<64, kMode> : attention_kernel<128, kMode>;
  } else {
    return padded_dim == 64    ? attention_kernel<64, kMode>
           : padded_dim == 128 ? attention_kernel<128, kMode>
                               : attention_kernel<256, kMode>;
  }
}

Kernel kernel_for(int padded_dim, AttentionMode mode) {
  return mode == AttentionMode::kWhole   ? kernel_for<AttentionMode::kWhole>(padded_dim)
         : mode == AttentionMode::kSplit ? kernel_for<AttentionMode::kSplit>(padded_dim)
                                         : kernel_for<AttentionMode::kFused>(padded_dim);
}

}  // namespace

Status prepare_attention_rows_cuda() {
  for (const AttentionMode mode :
       {AttentionMode::kWhole, AttentionMode::kSplit, AttentionMode::kFused}) {
    for (const int dim : {64, 128, 256}) {
      const bool fused = mode == AttentionMode::kFused;
      if (fused && !can_fuse_rope(dim, false)) continue;
      FORERUN_CUDA_RETURN_IF_ERROR(
          cudaFuncSetAttribute(kernel_for(dim, mode), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               shared_bytes(dim, fused, stages_for(dim, fused, kSharedLimit))),
          "loading the attention kernels");
      FORERUN_RETURN_IF_ERROR(
          prefer_shared_memory(kernel_for(dim, mode), "loading the attention kernels"));
    }
  }
  return {};
}

Status attention_rows_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const PagedKvCuda& kv = call.kv;
  const int dim = padded_head_dim_cuda(kv.head_dim);
  const bool fused = call.mode == AttentionMode::kFused;
  auto args = attention_args<AttentionArgs>(call);
  args.q = call.q;
  args.k_offset = call.k_offset;
  args.v_offset = call.v_offset;
  args.partials = call.partials;
  args.arrivals = call.arrivals;
  args.to_clear = call.to_clear;
  args.failed = call.failed;
  args.partial_floats = partial_floats(call.num_heads, kv.num_kv_heads, kv.head_dim);
  args.num_heads = call.num_heads;
  args.head_dim = kv.head_dim;
  args.stages = stages_for(dim, fused, kSharedLimit);
  FORERUN_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  return launch_dependent(kernel_for(dim, call.mode), dim3(static_cast<unsigned>(multiprocessors)),
                          dim3(kThreads),
                          static_cast<size_t>(shared_bytes(dim, fused, args.stages)), stream,
                          "launching attention", args);
}

}  // namespace forerun::cuda
