// Measures the normalization of one row by one thread, by width.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/rms_norm/rms_norm.h"

namespace forerun {
namespace {

void normalize(benchmark::State& state) {
  const auto dim = static_cast<size_t>(state.range(0));
  const std::vector<float> x(dim, 0.5f);
  const std::vector<float> weight(dim, 1.0f);
  std::vector<float> y(dim);
  for (auto iteration : state) {
    rms_norm_row(x.data(), weight, 1e-5f, y.data());
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}
BENCHMARK(normalize)->Arg(64)->Arg(192)->Arg(512)->Arg(2048)->Arg(8192);

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
