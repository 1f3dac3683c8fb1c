// Time of one layer's attention by rows and context, one thread.
//
//   attention_bench --benchmark_filter='rows:1/'
//
// "GB/s" counts each byte of K and V once a call, however many rows see it.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/attention/attention.h"

namespace forerun {
namespace {

// Args: query heads, KV heads, head_dim, rows, context before the first row, tree (1: rows are a
// chain of tree nodes behind the prefix; 0: prefix rows).
void attend(benchmark::State& state) {
  const auto arg = [&state](size_t index) { return static_cast<int32_t>(state.range(index)); };
  const int32_t num_heads = arg(0), num_kv_heads = arg(1), head_dim = arg(2), rows = arg(3),
                context = arg(4), tree = arg(5);
  const int32_t num_blocks = (context + rows) / kAttentionTile + 1;
  PagedKv kv;
  kv.num_kv_heads = num_kv_heads;
  kv.head_dim = head_dim;
  kv.block_stride_bytes = kv.layer_bytes();
  const auto bytes = static_cast<size_t>(kv.layer_bytes() * num_blocks);
  std::vector<uint16_t> storage(bytes / 2 + 32);
  for (size_t index = 0; index < storage.size(); ++index) {
    storage[index] = to_bf16(static_cast<float>(index * 2654435761u % 1024) / 512.0f - 1.0f).bits;
  }
  kv.data =
      reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64);
  std::vector<int32_t> table(static_cast<size_t>(num_blocks));
  std::iota(table.begin(), table.end(), 0);
  std::vector<int32_t> ancestors(static_cast<size_t>(rows));
  std::iota(ancestors.begin(), ancestors.end(), context);
  std::vector<AttentionRow> row_list;
  for (int32_t row_idx = 0; row_idx < rows; ++row_idx) {
    AttentionRow row;
    row.position = row.slot = context + row_idx;
    row.boundary = tree != 0 ? context : row.position + 1;
    row.block_table = table.data();
    row.ancestors = ancestors.data();
    row_list.push_back(row);
  }
  const int64_t width = static_cast<int64_t>(num_heads) * head_dim;
  std::vector<float> q(static_cast<size_t>(rows * width));
  for (size_t index = 0; index < q.size(); ++index)
    q[index] = static_cast<float>(index % 17) * 0.1f;
  std::vector<float> out(q.size());
  AttentionPlan plan;
  AttentionScratch scratch;
  plan.build(row_list, num_heads, num_kv_heads, 1);
  scratch.reserve(1, num_heads, num_kv_heads, head_dim);
  scratch.reserve_partials(plan, rows, num_heads, head_dim);
  const Team team(0, 1, nullptr);
  for (auto iteration : state) {
    attention(team, MatrixView<const float>(q.data(), {rows, width}), row_list, kv, 0, plan,
              &scratch, MatrixView<float>(out.data(), {rows, width}));
    benchmark::DoNotOptimize(out.data());
  }
  const double read = static_cast<double>(context + rows) * 2 * num_kv_heads * head_dim * 2;
  state.counters["GB/s"] =
      benchmark::Counter(read / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  const double operations = 4.0 * static_cast<double>(width) * rows * (context + rows * 0.5);
  state.counters["Gop/s"] =
      benchmark::Counter(operations / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(attend)
    ->ArgNames({"heads", "kv_heads", "head_dim", "rows", "context", "tree"})
    ->ArgsProduct({{8}, {4}, {64}, {1, 8, 64, 256}, {500, 4000}, {0}})
    ->ArgsProduct({{8}, {4}, {64}, {8, 16}, {500}, {1}})
    ->ArgsProduct({{32}, {8}, {128}, {1, 8, 256}, {1000, 32000}, {0}})
    ->ArgsProduct({{3}, {1}, {64}, {1, 8}, {500}, {0}});

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
