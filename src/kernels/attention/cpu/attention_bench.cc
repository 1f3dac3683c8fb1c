// Measures one layer's attention by rows, context and threads.
//
//   attention_bench --benchmark_filter='rows:1/'
//
// Each call finds its K and V in memory, not in a cache, as in a forward pass: calls rotate through
// several layers with kColdBytes in total. "GB/s" counts each byte of K and V once per call,
// however many rows attend to it.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/attention/attention.h"

namespace forerun {
namespace {

constexpr int64_t kColdBytes = int64_t{128} << 20;  // several times a CPU's last-level cache

// The arguments are query heads, KV heads, head_dim, rows, context before the first row, tree (1:
// rows are a chain of tree nodes behind the prefix; 0: prefix rows), and threads.
void attend(benchmark::State& state) {
  const auto arg = [&state](size_t index) { return static_cast<int32_t>(state.range(index)); };
  const int32_t num_heads = arg(0), num_kv_heads = arg(1), head_dim = arg(2), rows = arg(3),
                context = arg(4), tree = arg(5), threads = arg(6);
  const int32_t num_blocks = (context + rows) / kAttentionTile + 1;
  PagedKv kv;
  kv.num_kv_heads = num_kv_heads;
  kv.head_dim = head_dim;
  const int64_t layers = std::clamp<int64_t>(kColdBytes / (kv.layer_bytes() * num_blocks), 1, 64);
  kv.block_stride_bytes = layers * kv.layer_bytes();
  const auto bytes = static_cast<size_t>(kv.block_stride_bytes * num_blocks);
  // Uses huge pages, as KvStorage does: 4 KiB pages cost a fifth of the bandwidth.
  constexpr size_t kPage = size_t{2} << 20;
  const std::unique_ptr<uint16_t, void (*)(void*)> storage(
      static_cast<uint16_t*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)),
      std::free);
#if defined(MADV_HUGEPAGE)
  madvise(storage.get(), bytes, MADV_HUGEPAGE);
#endif
  for (size_t index = 0; index < bytes / 2; ++index) {
    storage.get()[index] =
        to_bf16(static_cast<float>(index * 2654435761u % 1024) / 512.0f - 1.0f).bits;
  }
  std::byte* const first_layer = reinterpret_cast<std::byte*>(storage.get());
  std::vector<int32_t> table(static_cast<size_t>(num_blocks));
  std::iota(table.begin(), table.end(), 0);
  std::vector<int32_t> ancestors(static_cast<size_t>(rows));
  std::iota(ancestors.begin(), ancestors.end(), context);
  std::vector<AttentionRow> row_list;
  for (int32_t row_idx = 0; row_idx < rows; ++row_idx) {
    AttentionRow row;
    row.last_visible = row.slot = context + row_idx;
    row.boundary = tree != 0 ? context : row.last_visible + 1;
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
  plan.build(row_list, num_heads, num_kv_heads, threads);
  scratch.reserve(threads, num_heads, num_kv_heads, head_dim);
  scratch.reserve_partials(plan, rows, num_heads, head_dim);
  const auto device = std::move(CpuDevice::create({}, threads)).value();
  int64_t layer = 0;
  for (auto iteration : state) {
    kv.data = first_layer + layer++ % layers * kv.layer_bytes();
    device->run([&](const Team& team) {
      attention(team, MatrixView<const float>(q.data(), {rows, width}), row_list, kv, 0, plan,
                &scratch, MatrixView<float>(out.data(), {rows, width}));
    });
    benchmark::DoNotOptimize(out.data());
  }
  const double read = static_cast<double>(context + rows) * 2 * num_kv_heads * head_dim * 2;
  state.counters["GB/s"] =
      benchmark::Counter(read / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  const double operations = 4.0 * static_cast<double>(width) * rows * (context + rows * 0.5);
  state.counters["Gop/s"] =
      benchmark::Counter(operations / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

// The shapes are those of the demo target, Llama-3.2-1B and Llama-3.1-8B: a chain of rows behind a
// context, then prompts.
BENCHMARK(attend)
    ->UseRealTime()
    ->ArgNames({"heads", "kv_heads", "head_dim", "rows", "context", "tree", "threads"})
    ->ArgsProduct({{8}, {4}, {64}, {1, 2, 4, 6, 8, 16}, {500, 1024, 2048, 7680}, {1}, {1, 2}})
    ->ArgsProduct({{32}, {8}, {64}, {1, 2, 4, 6, 8}, {1024, 2048, 7680}, {1}, {1, 2}})
    ->ArgsProduct({{32}, {8}, {128}, {1, 2, 4, 6, 8}, {1024, 2048, 7680}, {1}, {1, 2}})
    ->ArgsProduct({{8}, {4}, {64}, {256}, {0, 4096}, {0}, {2}})
    ->ArgsProduct({{32}, {8}, {64}, {256}, {0, 4096}, {0}, {2}})
    ->ArgsProduct({{32}, {8}, {128}, {256}, {0, 4096}, {0}, {2}})
    ->ArgsProduct({{3}, {1}, {64}, {1, 8}, {500}, {0}, {1}});

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
