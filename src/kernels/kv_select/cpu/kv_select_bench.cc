// Measures one layer's selection by number of tokens, observers and threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/kv_select/kv_select.h"

namespace forerun {
namespace {

// The arguments are query heads, KV heads, head_dim, tokens, observers and threads. Selects 512
// tokens.
void choose(benchmark::State& state) {
  const auto arg = [&state](size_t index) { return static_cast<int32_t>(state.range(index)); };
  const int32_t num_heads = arg(0), tokens = arg(3), observers = arg(4), threads = arg(5);
  PagedKv kv;
  kv.num_kv_heads = arg(1);
  kv.head_dim = arg(2);
  kv.block_stride_bytes = kv.layer_bytes();
  const int32_t chosen_blocks = 8;
  const int32_t num_blocks = tokens / kAttentionTile + 1 + chosen_blocks;
  std::vector<uint16_t> storage(static_cast<size_t>(kv.layer_bytes() * num_blocks / 2 + 32));
  for (size_t index = 0; index < storage.size(); ++index) {
    storage[index] = to_bf16(static_cast<float>(index * 2654435761u % 1024) / 512.0f - 1.0f).bits;
  }
  kv.data =
      reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64);
  std::vector<int32_t> table(static_cast<size_t>(num_blocks));
  std::iota(table.begin(), table.end(), 0);
  const int64_t width = int64_t{num_heads} * kv.head_dim;
  std::vector<float> q(static_cast<size_t>(observers * width));
  for (size_t index = 0; index < q.size(); ++index) {
    q[index] = static_cast<float>(index * 40503u % 64) / 32.0f - 1.0f;
  }
  const KvSelectionCall call{.queries = {q.data(), {observers, width}},
                             .block_table = table.data(),
                             .first_weighed = tokens,
                             .weighed_step = 0,
                             .tokens = tokens,
                             .chosen = chosen_blocks * kAttentionTile,
                             .pooling = 5,
                             .blocks = table.data() + num_blocks - chosen_blocks};
  KvSelectionScratch scratch;
  scratch.reserve(threads, call, num_heads, kv);
  const auto device = std::move(CpuDevice::create({}, threads)).value();
  for (auto iteration : state) {
    device->run([&](const Team& team) { select_kv(team, call, kv, &scratch); });
  }
}

BENCHMARK(choose)
    ->UseRealTime()
    ->ArgNames({"heads", "kv_heads", "head_dim", "tokens", "observers", "threads"})
    ->ArgsProduct({{8}, {4}, {64}, {5000, 7680}, {1, 4, 32}, {1, 2}})
    ->ArgsProduct({{32}, {8}, {128}, {7680}, {1, 32}, {2}});

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
