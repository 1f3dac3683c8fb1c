// Measures the rotation of one head, and the preparation of a position.
#include <benchmark/benchmark.h>

#include <utility>
#include <vector>

#include "kernels/rope/rope.h"

namespace forerun {
namespace {

RopeTable table_of(int64_t head_dim, int32_t max_position) {
  RopeFrequencies frequencies;
  frequencies.frequencies.assign(static_cast<size_t>(head_dim / 2), 0.37);
  return std::move(RopeTable::create(std::move(frequencies), max_position)).value();
}

void rotate(benchmark::State& state) {
  RopeTable table = table_of(state.range(0), 8);
  table.prepare(5);
  std::vector<float> head(static_cast<size_t>(state.range(0)), 0.5f);
  for (auto iteration : state) {
    rope_head(head.data(), table.cosines(5), table.sines(5), state.range(0) / 2);
    benchmark::DoNotOptimize(head.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(rotate)->Arg(64)->Arg(128);

void prepare(benchmark::State& state) {
  constexpr int32_t kPositions = 1 << 20;
  RopeTable table = table_of(state.range(0), kPositions);
  int32_t position = 1;
  for (auto iteration : state) {
    table.prepare(position);
    position = position + 1 < kPositions ? position + 1 : 1;
  }
}
BENCHMARK(prepare)->Arg(64)->Arg(128)->Iterations(100000);

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
