// Measures one KV head's index: building it from all keys, extending it by a tile, and scoring
// queries.
#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "kernels/attention/cpu/test_cache.h"
#include "kernels/pq_index/pq_index.h"

namespace forerun {
namespace {

struct Case {
  Case(int32_t head_dim, int32_t num_tokens)
      : tokens(num_tokens),
        text_blocks(tokens / kAttentionTile),
        table(static_cast<size_t>(text_blocks + pq_index_blocks(tokens, head_dim))),
        cache(DType::kBf16, static_cast<int32_t>(table.size()), 1, head_dim) {
    std::iota(table.begin(), table.end(), 0);
    for (int32_t token = 0; token < tokens; ++token) cache.put(table, token, 1, token);
    scratch.reserve(head_dim, tokens);
  }
  const int32_t* blocks() const { return table.data() + text_blocks; }
  void update(int32_t from) {
    pq_update(cache.kv(), 0, table.data(), {blocks(), from}, tokens, scratch);
  }

  int32_t tokens, text_blocks;
  std::vector<int32_t> table;
  TestCache cache;
  PqScratch scratch;
};

int32_t arg(const benchmark::State& state, size_t index) {
  return static_cast<int32_t>(state.range(index));
}

void build(benchmark::State& state) {
  Case bench_case(arg(state, 0), arg(state, 1));
  for (auto iteration : state) bench_case.update(0);
}

void bring_up(benchmark::State& state) {
  Case bench_case(arg(state, 0), arg(state, 1));
  bench_case.update(0);
  for (auto iteration : state) bench_case.update(bench_case.tokens - kAttentionTile);
}

void scores(benchmark::State& state) {
  Case bench_case(arg(state, 0), arg(state, 1));
  bench_case.update(0);
  const std::vector<float> query(static_cast<size_t>(bench_case.cache.kv().head_dim), 0.5f);
  const std::vector<const float*> queries(static_cast<size_t>(arg(state, 2)), query.data());
  std::vector<float> scores(queries.size() * static_cast<size_t>(bench_case.tokens));
  for (auto iteration : state) {
    pq_scores(bench_case.cache.kv(), 0, {bench_case.blocks(), bench_case.tokens}, bench_case.tokens,
              queries, 0.1f, scores.data(), bench_case.scratch);
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
