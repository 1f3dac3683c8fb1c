// Measures the host's work between two Steps of a GPU, without a GPU: the engine's loop,
// strategies, executor and samplers run over decoders that answer with summaries of synthetic
// logits. The device's time does not count; it is long enough for all work that may overlap with
// it, and during it other memory fills the L2 cache.
//
// Counters: microseconds from the end of one Step's device work to the next one's launch, the
// median of all Steps (step_us), the same in CPU time of the loop's thread (step_cpu_us), which
// other processes do not disturb, and its mean per result (result_cpu_us); results per Step; tokens
// and guesses per target Step and request.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clocks.h"
#include "base/token_weight.h"
#include "engine/loop/engine_loop.h"
#include "engine/loop/request_handles.h"
#include "engine/submit/submission.h"
#include "exec/decoder_step_runner.h"
#include "exec/live_costs.h"
#include "exec/real_executor.h"
#include "forerun/completion_queue.h"
#include "strategies/speculation_plan.h"
#include "text/tokenizer.h"

namespace forerun {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int32_t kVocab = 2000;
constexpr int32_t kRepeatedTokens = 60;
constexpr int32_t kPromptTokens = 120;
constexpr int32_t kNewTokens = 200;

uint64_t mix(uint64_t a, uint64_t b) {
  const uint64_t hash = (a ^ b * 0xff51afd7ed558ccdull) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 29;
}

// The times at which the devices, of which one works at a time, began and ended Steps. Used only by
// the loop's thread until it ends.
struct Gaps {
  SteadyClock::time_point idle_since{};
  int64_t cpu_ns = 0;  // CPU time of the loop's thread at idle_since
  // Values before each Step with rows of most requests.
  std::vector<double> us, cpu_us;
  double sum_cpu_us = 0.0;
  int64_t results = 0;
};

// The requests' strategy, the costs of a further row that they are told, and the kind of their
// texts.
struct Scenario {
  std::string strategy;
  double target_row_s = 0.0;
  double draft_row_s = 0.0;
  // Six of ten tokens repeat what followed the same token before, and there are few distinct
  // tokens: sources find guesses in the text so far.
  bool repeats = false;
};

// Launches nothing. The token after a token is a hash of it and its position; the draft mostly
// predicts it.
class IdleGpu : public Decoder, public DeviceLogits {
 public:
  IdleGpu(Role role, int32_t requests, std::chrono::microseconds device_time, bool repeats,
          Gaps* gaps)
      : role_(role),
        requests_(requests),
        device_time_(device_time),
        repeats_(repeats),
        gaps_(gaps) {
    config_.vocab_size = kVocab;
    config_.max_position = 1 << 20;
  }
  const ModelConfig& config() const override { return config_; }
  int64_t kv_blocks() const override { return 8192; }
  int64_t kv_block_bytes() const override { return 1; }
  Status forward(const Step&) override {
    return Status(StatusCode::kInternal, "whole logits are not made");
  }
  bool makes_summaries() const override { return true; }
  Status forward_summarized(const Step& step, std::span<const RowQuery> queries,
                            const StepEdits& /*edits*/, const Meanwhile& meanwhile) override {
    const int64_t cpu_ns = thread_cpu_ns();
    const SteadyClock::time_point begin = SteadyClock::now();
    note_gap(step, begin, cpu_ns);
    queries_.assign(queries.begin(), queries.end());
    if (summaries_.size() < queries.size()) summaries_.resize(queries.size());
    size_t wanted = 0;
    for (const StepRow& row : step.rows) {
      if (!row.wants_logits) continue;
      summarize_row(row, queries_[wanted], summaries_[wanted]);
      ++wanted;
    }
    if (meanwhile) meanwhile();
    read_other_memory();
    while (SteadyClock::now() < begin + device_time_) {
    }
    gaps_->idle_since = SteadyClock::now();
    gaps_->cpu_ns = thread_cpu_ns();
    return {};
  }
  LogitsPart logits(int32_t) const override {
    return {
        {nullptr, {static_cast<int64_t>(queries_.size()), kVocab}}, 0, const_cast<IdleGpu*>(this)};
  }
  Status move_kv(const StepSequence&, std::span<const KvMove>) override { return {}; }

  const LogitsSummary* summary(int32_t row) const override {
    return &summaries_[static_cast<size_t>(row)];
  }
  const RowQuery& query(int32_t row) const override { return queries_[static_cast<size_t>(row)]; }
  Status fetch(int32_t) override { return Status(StatusCode::kInternal, "there are no logits"); }

 private:
  // Evicts the loop's data from the caches, as other threads do while the GPU works.
  void read_other_memory() {
    int64_t sum = 0;
    for (size_t at = 0; at < other_.size(); at += 8) sum += other_[at];
    benchmark::DoNotOptimize(sum);
  }

  void note_gap(const Step& step, SteadyClock::time_point now, int64_t cpu_ns) {
    const auto sequences = static_cast<int64_t>(step.sequences.size());
    const bool prompts = step.rows.size() > 100 * step.sequences.size();
    if (sequences * 2 < requests_ || prompts || gaps_->idle_since == SteadyClock::time_point{}) {
      return;
    }
    gaps_->us.push_back(std::chrono::duration<double, std::micro>(now - gaps_->idle_since).count());
    const int64_t spent_ns = std::max<int64_t>(0, cpu_ns - gaps_->cpu_ns - thread_cpu_read_ns());
    gaps_->cpu_us.push_back(1e-3 * static_cast<double>(spent_ns));
    gaps_->sum_cpu_us += gaps_->cpu_us.back();
    gaps_->results += sequences;
  }

  void summarize_row(const StepRow& row, const RowQuery& query, LogitsSummary& summary) const {
    const auto token = static_cast<uint64_t>(row.token);
    const uint64_t hash = mix(token, static_cast<uint64_t>(row.position));
    const bool again = repeats_ && (hash >> 40) % 10 < 6;
    const auto next = static_cast<int32_t>((again ? mix(token, 1) : hash) %
                                           (repeats_ ? kRepeatedTokens : kVocab));
    const bool knows = role_ == Role::kTarget || (hash >> 32) % 10 < 7;
    const int32_t count = std::clamp(query.top, 1, 32);
    summary.bad = 0;
    summary.weights = 0;
    for (int32_t rank = 0; rank < count; ++rank) {
      const float logit = rank == 0 ? 0.0f : -1.5f - 0.4f * static_cast<float>(rank);
      summary.listed[rank] = {logit, (next + rank + (knows ? 0 : 1)) % kVocab};
      summary.weights += fixed_token_weight(token_weight(logit));
    }
    summary.num_listed = count;
    summary.best = summary.listed[0];
    summary.has_weights = 1;
    summary.weight_origin = 0.0f;
    summary.raw_weights = summary.weights;
  }

  const Role role_;
  const int32_t requests_;
  const std::chrono::microseconds device_time_;
  const bool repeats_;
  Gaps* const gaps_;
  ModelConfig config_;
  std::vector<RowQuery> queries_;
  std::vector<LogitsSummary> summaries_;
  std::vector<int64_t> other_ = std::vector<int64_t>(1 << 19, 1);  // 4 MiB
};

// Returns the seconds of a Step by its number of rows, for both models.
StepCosts costs_of(const Scenario& scenario) {
  StepCosts costs;
  for (const int32_t rows : {1, 16, 64, 256, 1024}) {
    costs.add(Role::kTarget, {.rows = rows, .sequences = 1}, 3e-3 + scenario.target_row_s * rows);
    costs.add(Role::kDraft, {.rows = rows, .sequences = 1}, 3e-4 + scenario.draft_row_s * rows);
  }
  return costs;
}

Request request_of(int32_t number, const std::string& strategy) {
  Request request;
  for (int32_t idx = 0; idx < kPromptTokens; ++idx) {
    request.prompt_tokens.push_back(static_cast<int32_t>(
        mix(static_cast<uint64_t>(number), static_cast<uint64_t>(idx)) % kVocab));
  }
  request.sampling.temperature = 0.0f;
  request.max_new_tokens = kNewTokens;
  request.ignore_eos = true;
  request.speculation = SpeculationOptions{.strategy = strategy};
  return request;
}

class Rig {
 public:
  Rig(int32_t requests, const Scenario& scenario)
      : target_(Role::kTarget, requests, std::chrono::microseconds(600), scenario.repeats, &gaps_),
        draft_(Role::kDraft, requests, std::chrono::microseconds(200), scenario.repeats, &gaps_),
        devices_(CpuDeviceGroup::create_unpinned({1}).value()),
        queue_(CompletionQueue::create().value()) {
    costs_.set(costs_of(scenario));
    observed_.set(costs_of(scenario));
    RealExecutorOptions options;
    options.runners[0] = std::make_unique<DecoderStepRunner>(&target_, devices_.get(), kVocab);
    options.runners[1] = std::make_unique<DecoderStepRunner>(&draft_, devices_.get(), kVocab);
    options.costs = &costs_;
    options.budget = {.rows = 4096, .seconds = 1e9};  // prompts are read at once
    // The engine observes Steps too, but here the costs that strategies see do not change.
    options.on_step = [this](const StepRecord& record) { observed_.observe(record); };
    loop_ = std::make_unique<EngineLoop>(
        EngineLoop::Options{.max_active = requests, .costs = &costs_, .load = &load_},
        std::make_unique<RealExecutor>(std::move(options)));
  }

  void submit(Request request, uint64_t tag, const Tokenizer& tokenizer) {
    SamplingParams sampling = resolve_sampling(request.sampling, {}, 0);
    auto plan = resolve_speculation(
        *request.speculation,
        {.has_draft_model = true, .target_vocab = kVocab, .draft_vocab = kVocab});
    auto active = std::make_unique<ActiveRequest>(std::move(request), std::move(sampling),
                                                  /*constraint=*/nullptr, std::move(plan).value(),
                                                  tokenizer, std::vector<int32_t>{});
    auto channel = RequestChannel::open(queue_->events(), tag, 1,
                                        {[waker = loop_->waker()] { waker->wake(); }, {}});
    active->connect(std::make_shared<EventStream>(std::move(channel), 0));
    loop_->submit(std::move(active));
  }

  // Reads all events and returns the sums of the requests' statistics.
  RequestStats drain() {
    RequestStats sum;
    while (auto completion = queue_->next()) {
      if (!completion->event.finished) continue;
      sum.output_tokens += completion->event.stats.output_tokens;
      sum.target_steps += completion->event.stats.target_steps;
      sum.drafted_tokens += completion->event.stats.drafted_tokens;
    }
    loop_.reset();
    return sum;
  }
  const Gaps& gaps() const { return gaps_; }

 private:
  Gaps gaps_;
  IdleGpu target_, draft_;
  std::unique_ptr<CpuDeviceGroup> devices_;
  LiveCosts costs_, observed_;
  LoadMeter load_{-1};
  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<EngineLoop> loop_;
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void between_steps(benchmark::State& state, const Scenario& scenario) {
  const auto requests = static_cast<int32_t>(state.range(0));
  const auto tokenizer = Tokenizer::load("models/demo-target");
  if (!tokenizer.ok()) return state.SkipWithError(tokenizer.status().message().c_str());
  std::vector<double> us, cpu_us;
  double sum_us = 0.0;
  double results = 0.0, tokens = 0.0, steps = 0.0, drafted = 0.0;
  for (auto _ : state) {
    Rig rig(requests, scenario);
    for (int32_t number = 0; number < requests; ++number) {
      rig.submit(request_of(number, scenario.strategy), static_cast<uint64_t>(number), *tokenizer);
    }
    const RequestStats stats = rig.drain();
    const Gaps& gaps = rig.gaps();
    us.insert(us.end(), gaps.us.begin(), gaps.us.end());
    cpu_us.insert(cpu_us.end(), gaps.cpu_us.begin(), gaps.cpu_us.end());
    sum_us += gaps.sum_cpu_us;
    results += static_cast<double>(gaps.results);
    tokens += static_cast<double>(stats.output_tokens);
    steps += static_cast<double>(stats.target_steps);
    drafted += static_cast<double>(stats.drafted_tokens);
    state.SetIterationTime(1e-6 * gaps.sum_cpu_us);
  }
  if (us.empty()) return state.SkipWithError("no Step had rows of most requests");
  state.counters["step_us"] = median(us);
  state.counters["step_cpu_us"] = median(cpu_us);
  state.counters["result_cpu_us"] = sum_us / results;
  state.counters["results_a_step"] = results / static_cast<double>(us.size());
  state.counters["tokens_a_step"] = tokens / std::max(steps, 1.0);
  state.counters["drafted_a_step"] = drafted / std::max(steps, 1.0);
}

void plain(benchmark::State& state) { between_steps(state, {"autoregressive", 1e-5, 1e-6}); }
// Rows are nearly free: every round drafts and verifies.
void auto_speculates(benchmark::State& state) { between_steps(state, {"auto", 1e-7, 1e-8}); }
// A row costs as much as a Step: speculation gains nothing.
void auto_rests(benchmark::State& state) { between_steps(state, {"auto", 3e-3, 3e-4}); }
// The draft costs too much, but some guesses from the text so far are worth a row.
void auto_repeats(benchmark::State& state) { between_steps(state, {"auto", 4e-5, 3e-3, true}); }
// The text gives as many guesses, but none is worth a row.
void auto_turned_down(benchmark::State& state) { between_steps(state, {"auto", 3e-4, 3e-3, true}); }

void at_requests(benchmark::internal::Benchmark* bench) {
  for (const int requests : {16, 64, 256}) bench->Arg(requests);
  bench->UseManualTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(plain)->Apply(at_requests);
BENCHMARK(auto_rests)->Apply(at_requests);
BENCHMARK(auto_speculates)->Apply(at_requests);
BENCHMARK(auto_repeats)->Apply(at_requests);
BENCHMARK(auto_turned_down)->Apply(at_requests);

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
