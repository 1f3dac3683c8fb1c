// Time of one KV head's index: built of all keys, brought up by a tile, and asked by queries.
#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "kernels/pq_index/pq_index.h"

namespace forerun {
namespace {

struct Case {
  Case(int32_t head_dim, int32_t num_tokens) : tokens(num_tokens) {
    kv.num_kv_heads = 1;
    kv.head_dim = head_dim;
    kv.block_stride_bytes = kv.layer_bytes();
    const int32_t text_blocks = tokens / kAttentionTile;
    const int32_t num_blocks = text_blocks + pq_index_blocks(tokens, head_dim);
    storage.resize(static_cast<size_t>(kv.layer_bytes() * num_blocks / 2 + 32));
    for (size_t index = 0; index < storage.size(); ++index) {
      storage[index] = to_bf16(static_cast<float>(index * 2654435761u % 1024) / 512.0f - 1.0f).bits;
    }
    kv.data =
        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64);
    table.resize(static_cast<size_t>(num_blocks));
    std::iota(table.begin(), table.end(), 0);
    blocks = table.data() + text_blocks;
    scratch.reserve(head_dim, tokens);
  }
  void update(int32_t from) { pq_update(kv, 0, table.data(), {blocks, from}, tokens, scratch); }

  int32_t tokens;
  PagedKv kv;
  std::vector<uint16_t> storage;
  std::vector<int32_t> table;
  const int32_t* blocks = nullptr;
  PqScratch scratch;
};

int32_t arg(const benchmark::State& state, size_t index) {
  return static_cast<int32_t>(state.range(index));
}

void build(benchmark::State& state) {
  Case the(arg(state, 0), arg(state, 1));
  for (auto iteration : state) the.update(0);
}

void bring_up(benchmark::State& state) {
  Case the(arg(state, 0), arg(state, 1));
  the.update(0);
  for (auto iteration : state) the.update(the.tokens - kAttentionTile);
}

void scores(benchmark::State& state) {
  Case the(arg(state, 0), arg(state, 1));
  the.update(0);
  const std::vector<float> query(static_cast<size_t>(the.kv.head_dim), 0.5f);
  const std::vector<const float*> queries(static_cast<size_t>(arg(state, 2)), query.data());
  std::vector<float> scores(queries.size() * static_cast<size_t>(the.tokens));
  for (auto iteration : state) {
    pq_scores(the.kv, 0, {the.blocks, the.tokens}, the.tokens, queries, 0.1f, scores.data(),
              the.scratch);
  }
}

BENCHMARK(build)->ArgNames({"head_dim", "tokens"})->ArgsProduct({{64, 128}, {2048, 16384}});
BENCHMARK(bring_up)->ArgNames({"head_dim", "tokens"})->ArgsProduct({{64, 128}, {16384}});
BENCHMARK(scores)
    ->ArgNames({"head_dim", "tokens", "queries"})
    ->ArgsProduct({{64, 128}, {16384}, {4, 32}});

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
