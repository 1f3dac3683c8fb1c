// Attention of rows that see nothing but their prefix: prompts, and plain decoding of many
// requests. A block takes neighbouring rows of a sequence, two warpgroups of up to 64 columns (a
// row's query head each), and tiles that they see; a third fills a ring of tiles.
//
// Floor: the products at the speed of wgmma; a column's probabilities stay in registers between the
// two. The bits are those of the other kernels (attention/cuda/columns.h): spans are merged as they
// end, which is why a lane has two sets of sums.
#include <cuda_bf16.h>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/kernels.h"
#include "kernels/attention/cuda/tiles_load.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// What a lane keeps of its two columns, g and g + 8 of its warp's 16. Rows that are not there see
// nothing.
struct TilesColumns {
  int position[2], head[2];
  int highest = -1;  // of all rows of the warpgroup

  __device__ __forceinline__ TilesColumns(const AttentionArgs& args, const AttentionRowCuda* rows,
                                          int first_row, int num_rows, int part_heads,
                                          int first_column) {
    for (int row = threadIdx.x % 32; row < num_rows; row += 32) {
      highest = max(highest, rows[first_row + row].position);
    }
    highest = __reduce_max_sync(~0u, highest);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = first_column + 8 * i;
      const int row = column / args.row_columns;
      head[i] = column % args.row_columns;
      position[i] = row < num_rows && head[i] < part_heads ? rows[first_row + row].position : -1;
    }
  }
  // Hides scores of a tile that a column does not see, and scales the others.
  __device__ __forceinline__ void mask(const AttentionArgs& args, int begin,
                                       float (&score)[8][4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int last = position[i >> 1];
      const int first = args.window > 0 ? last - args.window + 1 : 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int at = begin + 8 * j + 2 * (threadIdx.x & 3) + (i & 1);
        score[j][i] =
            at <= last && at >= first ? __fmul_rn(score[j][i], args.scale_log2) : kNothing;
      }
    }
  }
};

template <int kDim>
__device__ __forceinline__ void store_outputs(const AttentionArgs& args,
                                              const TilesColumns& columns, int first_column,
                                              int first_row, int first_head,
                                              const ColumnSums<kDim>& total) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (columns.position[i] < 0) continue;
    const int row = first_row + (first_column + 8 * i) / args.row_columns;
    uint16_t* const out =
        args.attended + row * args.attended_stride + (first_head + columns.head[i]) * args.head_dim;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) {
      const int dim = 8 * j + 2 * (threadIdx.x & 3);
      if (dim >= args.head_dim) break;
      *reinterpret_cast<uint32_t*>(out + dim) = pack_activations(
          args.attended_format, __fdiv_rn(total.out[j][2 * i], total.exp_sum[i][0]),
          __fdiv_rn(total.out[j][2 * i + 1], total.exp_sum[i][0]));
    }
  }
}

// A warpgroup: its columns of all of the block's items.
template <int kDim>
__device__ __forceinline__ void attend(const AttentionArgs& args, uint32_t shared, int count,
                                       int num_items, int group) {
  using Layout = TilesLayout<kDim>;
  const int lane = threadIdx.x % 32;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int first_column = thread / 32 * 16 + lane / 4;
  const auto* const rows = step_data<AttentionRowCuda>(args.step, args.step->rows_offset);
  const int group_rows = 64 / args.row_columns;
  const int group_first = group * group_rows;  // of an item's rows
  const uint32_t queries = shared + Layout::kQueries + group * tile_bytes(kDim);
  int stage = 0;
  uint32_t parity = 0;
  for (int work = blockIdx.x; work < count; work += gridDim.x) {
    const TilesWork the(args, work, num_items);
    const int first_row = the.item.first_row + group_first;
    const int num_rows = min(the.item.num_rows - group_first, group_rows);
    const int part_heads = min(args.group_heads - the.part * 8, 8);
    const int first_head = the.kv_head * args.group_heads + the.part * 8;

    named_barrier(1 + group, 128);  // nobody needs the last queries
    ColumnQueries<kDim, false> staged;
    staged.plan(args, first_row, num_rows, part_heads, [&](int row) {
      return args.q + (int64_t{row} * args.num_heads + first_head) * kDim;
    });
    staged.stage(queries);
    named_barrier(1 + group, 128);

    const TilesColumns columns(args, rows, first_row, num_rows, part_heads, first_column);
    ColumnSums<kDim> span, total;
    span.clear();
    total.clear();
    for (int tile = the.begin_tile; tile < the.item.end_tile; ++tile) {
      const int begin = tile * kTilePositions;
      const uint32_t keys = shared + stage * Layout::kStageBytes;
      const uint32_t filled = shared + Layout::kBarriers + stage * 16;
      barrier_wait(filled, parity);
      if (begin <= columns.highest) {
        float score[8][4];
        score_tile<kDim>(score, queries, kPanelBytes, keys);
        const bool all = begin + kTilePositions <= the.item.lowest + 1 &&
                         (args.window == 0 || begin > columns.highest - args.window);
        if (all) {
          scale_scores(score, args.scale_log2);
        } else {
          columns.mask(args, begin, score);
          const int written = the.item.prefix_tokens - begin;
          if (written < kTilePositions) {
            clear_values<kDim>(keys + tile_bytes(kDim), written, thread);
            fence_async_proxy();
            named_barrier(1 + group, 128);
          }
        }
        uint32_t probs[4][4];
        exponentiate<kDim>(score, span, probs);
        add_tile<kDim>(span, probs, keys + tile_bytes(kDim));
        if (ends_span(columns.highest, tile)) {
          span.reduce_lanes();
          merge(total, span);
          span.clear();
        }
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(filled + 8);
      if (++stage == kTilesStages) {
        stage = 0;
        parity ^= 1;
      }
    }
    store_outputs<kDim>(args, columns, first_column, first_row, first_head, total);
  }
}

template <int kDim>
__global__ void __launch_bounds__(kTilesThreads, 1)
    attention_tiles_kernel(const __grid_constant__ AttentionArgs args) {
  using Layout = TilesLayout<kDim>;
  const uint32_t shared = dynamic_shared_address();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kTilesStages; ++i) {
      barrier_init(shared + Layout::kBarriers + i * 16, 1);
      barrier_init(shared + Layout::kBarriers + i * 16 + 8, 8);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const auto num_items = [&] { return args.step->num_prompt_items; };
  const int heads = args.kv_heads * args.parts;
  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<24>();
    if (threadIdx.x == 0) {
      wait_for_previous_kernel();  // it has appended to the cache
      copy_tiles<kDim>(args, shared, num_items() * heads, num_items());
    }
  } else {
    warpgroup_reg_alloc<240>();
    wait_for_previous_kernel();
    attend<kDim>(args, shared, num_items() * heads, num_items(),
                 static_cast<int>(threadIdx.x) / 128 - 1);
  }
}

#else

// Below sm_90 there is no wgmma; never launched there.
template <int kDim>
__global__ void attention_tiles_kernel(const __grid_constant__ AttentionArgs) {}

#endif

using Kernel = void (*)(AttentionArgs);
Kernel kernel_for(int padded_dim) {
  return padded_dim == 64 ? attention_tiles_kernel<64> : attention_tiles_kernel<128>;
}
constexpr int tiles_bytes(int padded_dim) {
  return padded_dim == 64 ? TilesLayout<64>::kBytes : TilesLayout<128>::kBytes;
}

}  // namespace

Status prepare_attention_tiles_cuda() {
  for (const int dim : {64, 128}) {
    FORERUN_RETURN_IF_ERROR(
        allow_shared_memory(kernel_for(dim), tiles_bytes(dim), "loading the attention kernels"));
  }
  return {};
}

Status attention_tiles_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const int dim = padded_head_dim_cuda(call.kv.head_dim);
  const AttentionArgs args = attention_args_of_rows(call);
  FORERUN_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  return launch_dependent(kernel_for(dim), dim3(static_cast<unsigned>(multiprocessors)),
                          dim3(kTilesThreads), static_cast<size_t>(tiles_bytes(dim)), stream,
                          "launching attention", args);
}

}  // namespace forerun::cuda
