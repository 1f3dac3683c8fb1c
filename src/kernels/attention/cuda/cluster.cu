// Attention of few rows over short contexts: a cluster of 8 blocks takes all spans of a few rows of
// one key/value head and merges them among themselves (docs/kernels/attention.md, kCluster).
//
// Every trip to the L2 costs 0.6 us, so what the plan says and the tiles of the prefix are asked
// for before the previous kernel's end is awaited; then come queries and the step's own keys (one
// trip), the products, results to the other blocks' shared memory (each block merges an eighth of
// the dimensions of every column), outputs.
//  - a warpgroup takes a span at a time, wgmma with columns (a row's query head each) as the 64-row
//    operand: keys and values are read from shared memory once, whatever the rows;
//  - the tile in which rows differ is taken by a warp for a row (attention/cuda/cluster_tail.h);
//  - results are received where the keys were: a warp says that it needs them no more, and sends
//    once all have said so.
#include <cuda_bf16.h>

#include <algorithm>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/cluster_args.h"
#include "kernels/attention/cuda/cluster_exchange.h"
#include "kernels/attention/cuda/cluster_stage.h"
#include "kernels/attention/cuda/cluster_tail.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/kernels.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// With 112 registers of a linear layer's threads beside it; two blocks a multiprocessor have less.
constexpr int cluster_registers(bool paired) { return paired ? 128 : 144; }

template <int kDim, bool kPaired>
__global__ void __maxnreg__(cluster_registers(kPaired))
    attention_cluster_kernel(const __grid_constant__ ClusterArgs args) {
  using Layout = ClusterLayout<kDim>;
  constexpr int kPairs = kDim / 16;  // threads a column
  extern __shared__ __align__(1024) std::byte memory[];
  const uint32_t shared = shared_address(memory);
  const uint32_t barriers = shared + Layout::kBarriers;  // of the warpgroups' tiles
  const uint32_t received_barrier = shared + Layout::kReceivedBarrier;
  const uint32_t leave_barrier = shared + Layout::kLeaveBarrier;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int group = warp / 4;  // warpgroup, and its stage
  const int rank = static_cast<int>(cluster_rank());
  const int heads = args.kv_heads * args.parts;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) barrier_init(barriers + i * 8, 1);
    barrier_init(received_barrier, 1);
    barrier_init(leave_barrier, kClusterBlocks * kClusterWarps);
    barrier_init_fence();
  }
  __syncthreads();
  cluster_arrive_relaxed();
  cluster_wait();  // every block's barriers are there
  // A warp has no need of keys any more; waits until no warp of the cluster has.
  const auto leave_keys = [&] {
    __syncwarp();
    if (lane < kClusterBlocks) arrive_at_peer(peer_address(leave_barrier, lane));
  };
  if (!args.early) wait_for_previous_kernel();
  const int count = args.step->num_items * heads;
  bool waited = !args.early;
  uint32_t loaded = 0;  // tiles so far of the warpgroup's stage
  uint32_t other_loaded = 0;
  uint32_t received = 0;

  for (int work = static_cast<int>(blockIdx.x) / kClusterBlocks; work < count;
       work += static_cast<int>(gridDim.x) / kClusterBlocks) {
    const AttentionItemCuda item =
        step_data<AttentionItemCuda>(args.step, args.step->items_offset)[work / heads];
    const int part = work % heads % args.parts;
    const int kv_head = work % heads / args.parts;
    const int part_heads = min(args.group_heads - part * 8, 8);
    const int first_head = kv_head * args.group_heads + part * 8;
    const ClusterTask task(item, args.window, rank, group);

    const auto request = [&](int tile) {
      const std::byte* const keys = keys_of<kDim>(
          args, step_data<int32_t>(args.step, args.step->tables_offset)[item.table + tile],
          kv_head);
      const uint32_t barrier = barriers + group * 8;
      const uint32_t stage = shared + group * tile_bytes(kDim);
      barrier_arrive_expecting(barrier, 2 * tile_bytes(kDim));
      bulk_copy(stage + Layout::kKeys, keys, tile_bytes(kDim), barrier);
      bulk_copy(stage + Layout::kValues, keys + value_offset<kDim>(args), tile_bytes(kDim),
                barrier);
    };
    const bool leads = threadIdx.x % 128 == 0;
    const bool tail_is_mine = task.tail_has_prefix && task.tail_group == group;
    if (leads && (task.has_span || tail_is_mine)) {
      request(task.has_span ? task.begin_tile : task.tail_tile);
    }
    if (threadIdx.x == 64) {
      const int pairs = (item.row_spans - item.num_rows * task.first_span) * part_heads;
      barrier_arrive_expecting(received_barrier,
                               static_cast<uint32_t>(pairs * (Layout::kSliceBytes + 8)));
    }

    // Rows of the tail, or parts of them: every tail_warps-th is a warp's. Warps with a span have
    // some only where they are quick, the heads being short, or where others would have two.
    const bool tail_of_all =
        kDim == 64 || task.tail_group == 0 || item.num_rows > kClusterWarps / 2;
    const int tail_warps = tail_of_all ? kClusterWarps : kClusterWarps / 2;
    const int tail_index = (warp + 4 * task.tail_group) % kClusterWarps;
    const int first_tail = task.has_tail && tail_index < tail_warps ? tail_index : kGroupRows;
    int tail_shift = 0;  // of the number of warps that share a row
    while ((item.num_rows << (tail_shift + 1)) <= tail_warps && (32 << tail_shift) < kDim) {
      ++tail_shift;
    }
    note_rows<kDim>(args, item, task.has_tail, shared);
    if (threadIdx.x == 96) {
      const int facts[kNumFacts] = {item.first_row,  item.num_rows,
                                    first_head,      part_heads,
                                    kv_head,         task.first_span,
                                    task.tail_span,  task.tail_tile * kTilePositions,
                                    task.tail_group, task.tail_has_prefix ? 1 : 0,
                                    tail_shift};
#pragma unroll
      for (int i = 0; i < kNumFacts; ++i) {
        store_shared_4(shared + Layout::kFacts + i * 4, static_cast<uint32_t>(facts[i]));
      }
    }
    // A thread's column: of its queries, and of what it merges.
    const int column = static_cast<int>(threadIdx.x) / kPairs;
    const int column_row = args.by_row_columns.divide(column);
    const int column_head = column - column_row * args.row_columns;
    const bool has_column = column_row < item.num_rows && column_head < part_heads;
    StagedQuery<kDim> query;
    if (has_column) {
      query.plan(args, item.first_row + column_row, first_head + column_head, column_row,
                 column_head == 0, shared);
    }
    StagedExtra<kDim> extra;
    if (task.has_tail) extra.plan(args, item, kv_head, task.tail_is_last, shared);

    __syncthreads();  // angles are there
    if (!waited) wait_for_previous_kernel();
    if (received == 0) launch_dependents();
    waited = true;
    query.copy(shared);
    extra.copy(shared);
    copies_commit();
    copies_wait();
    query.rotate_own(shared);
    extra.rotate_own(shared);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();

    // Addresses are made anew here: kept since before the loop they would be spilled.
    const uint32_t here = opaque(shared);
    const auto fact = [&](ClusterFact index) {
      return static_cast<int>(load_shared_4(here + Layout::kFacts + index * 4));
    };
    const auto position_of = [&](int row) {
      return static_cast<int>(load_shared_4(here + Layout::kRows + row * 8));
    };
    const auto tail_of = [&](int row) {
      TailRow<kDim> tail;
      tail.shared = here;
      tail.list = here + Layout::kLists + row * kMostExtras;
      tail.scores = here + Layout::kScores + row * Layout::kRowScoreBytes;
      tail.stage = fact(kTailGroup);
      tail.begin = fact(kTailBegin);
      tail.position = position_of(row);
      tail.boundary = static_cast<int>(load_shared_4(here + Layout::kRows + row * 8 + 4));
      tail.column = row * args.row_columns;
      return tail;
    };
    const int tails = fact(kNumRows) << fact(kTailShift);
#pragma unroll 1
    for (int index = first_tail; index < tails; index += tail_warps) {
      const int shift = fact(kTailShift);
      const TailRow<kDim> tail = tail_of(index >> shift);
      if (tail.begin > tail.position) continue;
      // The tail's tile is the only one of its stage.
      if (fact(kTailHasPrefix) != 0) {
        barrier_wait(barriers + tail.stage * 8, (tail.stage == group ? loaded : other_loaded) & 1);
      }
      tail.score_keys(index & ((1 << shift) - 1), 1 << shift, args.scale_log2, args.window, lane);
    }
    extra.append(args, fact(kKvHead), here);
    if (!task.has_span) leave_keys();
    if (task.has_span) {
      ColumnSums<kDim> sums;
      sums.clear();
      const int first_column = warp % 4 * 16;
      const bool has_columns = first_column < fact(kNumRows) * args.row_columns;
      const uint32_t stage = here + group * tile_bytes(kDim);
      for (int tile = task.begin_tile; tile < task.end_tile; ++tile) {
        barrier_wait(barriers + group * 8, loaded++ & 1);
        float score[8][4];
        score_tile<kDim>(score, here + Layout::kQueries, Layout::kColumnPanelBytes,
                         stage + Layout::kKeys);
        if (tile + 1 == task.end_tile) leave_keys();
        uint32_t probs[4][4] = {};
        if (has_columns) {
          scale_scores(score, args.scale_log2);
          if (args.window > 0) {
            hide_before_window(score, tile * kTilePositions, lane, [&](int i) {
              const int row = args.by_row_columns.divide(first_column + lane / 4 + i / 2 * 8);
              return position_of(min(row, fact(kNumRows) - 1)) - args.window + 1;
            });
          }
          exponentiate<kDim>(score, sums, probs);
        }
        add_tile<kDim>(sums, probs, stage + Layout::kValues);
        if (tile + 1 < task.end_tile) {
          named_barrier(1 + group, 128);
          if (leads) request(tile + 1);
        }
      }
      if (has_columns) {
        sums.close();
        barrier_wait(leave_barrier, received & 1);
        const int span_idx = fact(kFirstSpan) + rank + group * kClusterBlocks;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int own = first_column + lane / 4 + 8 * i;
          const int row = args.by_row_columns.divide(own);
          if (row < fact(kNumRows) && own - row * args.row_columns < fact(kPartHeads)) {
#pragma unroll
            for (int part = 0; part < kDim / 32; ++part) {
              send<kDim>(sums.out + 4 * part, i, part, here, span_idx, own, lane);
            }
            send_sums<kDim>(sums, i, here, span_idx, own, lane);
          }
        }
      }
    }
#pragma unroll 1
    for (int index = first_tail; index < tails; index += tail_warps) {
      const int shift = fact(kTailShift);
      const int row = index >> shift;
      const TailRow<kDim> tail = tail_of(row);
      if (tail.begin > tail.position) continue;
      // The row's warps have told one another its scores.
      if (shift > 0) named_barrier(3 + row, 32 << shift);
      ColumnSoftmax sums;
      uint32_t probs[4][4];
      float out[4][4];
      const auto values = tail.values(lane);
      tail.exponentiate(sums, probs, lane);
      const int parts = kDim / 32 >> shift;
      const int first = (index & ((1 << shift) - 1)) * parts;
#pragma unroll 1
      for (int part = first; part < first + parts; ++part) {
        tail.add_values(values, probs, part, lane, out);
        barrier_wait(leave_barrier, received & 1);
        if (lane / 4 < fact(kPartHeads)) {
          const int own = tail.column + lane / 4;
          send<kDim>(out, 0, part, here, fact(kTailSpan), own, lane);
          if (part == 0) send_sums<kDim>(sums, 0, here, fact(kTailSpan), own, lane);
        }
        __syncwarp();
      }
    }
    barrier_wait(leave_barrier, received & 1);  // no arrival comes after this block's end
    barrier_wait(received_barrier, received++ & 1);
    if (has_column) {
      const int own = static_cast<int>(threadIdx.x) / kPairs;
      const int pair = static_cast<int>(threadIdx.x) % kPairs;
      const int row = args.by_row_columns.divide(own);
      const float2 v =
          merge_received<kDim>(here, own, pair, fact(kFirstSpan), num_spans(position_of(row)));
      const int dim = kDim == 128 ? rank * 16 + pair % 2 * 8 + pair / 2 * 2 : rank * 8 + pair * 2;
      uint16_t* const out = args.attended + (fact(kFirstRow) + row) * args.attended_stride +
                            (fact(kFirstHead) + own - row * args.row_columns) * kDim + dim;
      *reinterpret_cast<uint32_t*>(out) = pack_activations(args.attended_format, v.x, v.y);
    }
    // Tiles of both stages, for whatever this block does next; those of a span are counted.
    const auto tail_tiles = static_cast<uint32_t>(fact(kTailHasPrefix));
    const bool is_own = fact(kTailGroup) == group;
    loaded += is_own ? tail_tiles : 0u;
    other_loaded += task.other_tiles + (is_own ? 0u : tail_tiles);
    __syncthreads();  // nobody looks at what was received, nor at queries
  }
  if (!waited) wait_for_previous_kernel();
}

#else

// Below sm_90 there are no clusters; never launched there.
template <int kDim, bool kPaired>
__global__ void attention_cluster_kernel(const __grid_constant__ ClusterArgs) {}

#endif

using Kernel = void (*)(ClusterArgs);
// `paired`: for two blocks a multiprocessor.
Kernel kernel_for(int dim, bool paired) {
  if (paired) {
    return dim == 64 ? attention_cluster_kernel<64, true> : attention_cluster_kernel<128, true>;
  }
  return dim == 64 ? attention_cluster_kernel<64, false> : attention_cluster_kernel<128, false>;
}
constexpr int cluster_bytes(int dim) {
  return dim == 64 ? ClusterLayout<64>::kBytes : ClusterLayout<128>::kBytes;
}

}  // namespace

Status prepare_attention_cluster_cuda() {
  for (const int dim : {64, 128}) {
    for (const bool paired : {false, true}) {
      FORERUN_RETURN_IF_ERROR(allow_shared_memory(kernel_for(dim, paired), cluster_bytes(dim),
                                                  "loading the attention kernels"));
    }
  }
  return {};
}

Status attention_cluster_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const PagedKvCuda& kv = call.kv;
  auto args = attention_args<ClusterArgs>(call);
  args.k_offset = call.k_offset;
  args.v_offset = call.v_offset;
  args.row_columns = query_columns(call.num_heads, kv.num_kv_heads);
  args.by_row_columns = Divisor(args.row_columns);
  // As the plan groups rows of one sequence; clusters take what there is besides in turn.
  const int group_rows = std::min(kGroupRows, kClusterColumns / args.row_columns);
  const int items = (call.rows + group_rows - 1) / group_rows * args.kv_heads * args.parts;
  const bool paired = items > kResidentClusters;
  const int clusters = paired ? std::min(items, kMostClusters) : kResidentClusters;
  return launch_dependent_clusters(
      kernel_for(kv.head_dim, paired), kClusterBlocks,
      dim3(static_cast<unsigned>(clusters * kClusterBlocks)), dim3(kClusterThreads),
      static_cast<size_t>(cluster_bytes(kv.head_dim)), stream, "launching attention", args);
}

}  // namespace forerun::cuda
