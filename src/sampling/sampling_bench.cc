// Measures one row of logits: greedy, sampled, filtered, log-probabilities, a draft's candidates;
// and some of these from a device's summary. The logits are normal with a few peaks, which prunes
// less than a trained model's.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "sampling/row_query.h"
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

// Measures the host's part if a device has made the summary.
class SummarizedRow : public DeviceLogits {
 public:
  SummarizedRow(const std::vector<float>& logits, const RowQuery& query) : query_(query) {
    logits_summary_ref(logits, 0, query_, nullptr, &summary_);
  }
  const LogitsSummary* summary(int32_t /*logits_row*/) const override { return &summary_; }
  const RowQuery& query(int32_t /*logits_row*/) const override { return query_; }
  Status fetch(int32_t /*logits_row*/) override {
    return {StatusCode::kInternal, "the summary did not suffice"};
  }

 private:
  RowQuery query_;
  LogitsSummary summary_;
};

void run_summarized(benchmark::State& state, const SamplingParams& params, int32_t candidates) {
  const auto logits = bench_logits(state.range(0));
  const auto vocab = static_cast<int32_t>(logits.size());
  SamplerScratch scratch;
  std::vector<Candidate> top;
  SampledToken token;
  RowContext context;
  context.params = &params;
  SummarizedRow device(logits, candidates > 0 ? candidates_query(context, candidates, true, vocab)
                                              : sample_query(context, vocab));
  LogitsRow row(logits);
  row.on_device = &device;
  for (auto _ : state) {
    top.clear();
    const Status status = candidates > 0
                              ? top_candidates(row, context, candidates, true, scratch, &top)
                              : sample_token(row, context, scratch, &token, &top);
    if (!status.ok()) state.SkipWithError(status.message().c_str());
    benchmark::DoNotOptimize(token);
    benchmark::DoNotOptimize(top.data());
  }
}

SamplingParams at_temperature(float temperature) {
  SamplingParams params;
  params.temperature = temperature;
  return params;
}
void summarized_greedy(benchmark::State& state) { run_summarized(state, at_temperature(0.0f), 0); }
void summarized_sampled(benchmark::State& state) { run_summarized(state, at_temperature(0.8f), 0); }
void summarized_top_k(benchmark::State& state) {
  SamplingParams params = at_temperature(0.8f);
  params.top_k = 50;
  run_summarized(state, params, 0);
}
void summarized_draft_candidates(benchmark::State& state) {
  run_summarized(state, at_temperature(0.8f), 16);
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
FORERUN_SAMPLING_BENCH(summarized_greedy);
FORERUN_SAMPLING_BENCH(summarized_sampled);
FORERUN_SAMPLING_BENCH(summarized_top_k);
FORERUN_SAMPLING_BENCH(summarized_draft_candidates);

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
