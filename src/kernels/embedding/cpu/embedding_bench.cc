// Measures the look-up of rows of a bf16 table by one thread.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/embedding/embedding.h"

namespace forerun {
namespace {

void look_up(benchmark::State& state) {
  constexpr int64_t kVocab = 8192;
  const int64_t dim = state.range(0);
  const int64_t rows = state.range(1);
  const std::vector<bf16> table(static_cast<size_t>(kVocab * dim), to_bf16(0.5f));
  std::vector<int32_t> tokens;
  for (int64_t row = 0; row < rows; ++row) {
    tokens.push_back(static_cast<int32_t>(row * 7919 % kVocab));
  }
  std::vector<float> y(static_cast<size_t>(rows * dim));
  for (auto iteration : state) {
    embedding(Team(0, 1, nullptr), MatrixView<const bf16>(table.data(), {kVocab, dim}), tokens,
              true, MatrixView<float>(y.data(), {rows, dim}));
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * rows * dim * 2);
}
BENCHMARK(look_up)->Args({512, 1})->Args({512, 256})->Args({4096, 1})->Args({4096, 256});

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
