// One row of logits: greedy, sampled, filtered, log-probabilities, a draft's candidates. The logits
// are normal with a few peaks, which prunes less than a trained model's.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "sampling/sampler.h"

namespace forerun {
namespace {

std::vector<float> bench_logits(int64_t vocab) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (float& logit : logits) logit = normal(rng);
  for (int peak = 0; peak < 20; ++peak) {
    logits[rng() % logits.size()] = 8.0f + static_cast<float>(peak % 4);
  }
  return logits;
}

void run(benchmark::State& state, const SamplingParams& params) {
  const auto logits = bench_logits(state.range(0));
  SamplerScratch scratch;
  std::vector<Candidate> alternatives;
  SampledToken token;
  RowContext context;
  context.params = &params;
  for (auto _ : state) {
    ++context.position;
    alternatives.clear();
    const Status status = sample_token(logits, context, scratch, &token, &alternatives);
    if (!status.ok()) state.SkipWithError(status.message().c_str());
    benchmark::DoNotOptimize(token);
  }
}

void greedy(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0.0f;
  run(state, params);
}
void sampled(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0.8f;
  run(state, params);
}
void flat(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 8.0f;
  run(state, params);
}
void top_k(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0.8f;
  params.top_k = 50;
  run(state, params);
}
void top_p(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0.8f;
  params.top_p = 0.95f;
  run(state, params);
}
void logprobs(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0.8f;
  params.logprobs = 5;
  run(state, params);
}

void draft_candidates(benchmark::State& state) {
  const auto logits = bench_logits(state.range(0));
  SamplingParams params;
  params.temperature = 0.8f;
  SamplerScratch scratch;
  std::vector<Candidate> top;
  RowContext context;
  context.params = &params;
  for (auto _ : state) {
    ++context.position;
    const Status status = top_candidates(logits, context, 16, true, scratch, &top);
    if (!status.ok()) state.SkipWithError(status.message().c_str());
    benchmark::DoNotOptimize(top.data());
  }
}

#define FORERUN_SAMPLING_BENCH(name) \
  BENCHMARK(name)->Arg(8192)->Arg(128256)->Unit(benchmark::kMicrosecond)
FORERUN_SAMPLING_BENCH(greedy);
FORERUN_SAMPLING_BENCH(sampled);
FORERUN_SAMPLING_BENCH(flat);
FORERUN_SAMPLING_BENCH(top_k);
FORERUN_SAMPLING_BENCH(top_p);
FORERUN_SAMPLING_BENCH(logprobs);
FORERUN_SAMPLING_BENCH(draft_candidates);

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
