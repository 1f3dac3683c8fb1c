#include "runner/runner.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace forerun::bench {
namespace {

struct Sample {
  std::vector<int32_t> tokens;
  RequestStats stats;
};

Result<Sample> run_once(Engine& engine, Request request) {
  FORERUN_ASSIGN_OR_RETURN(const std::shared_ptr<RequestStream> stream,
                           engine.submit(std::move(request)));
  Sample sample;
  while (std::optional<Event> event = stream->next()) {
    sample.tokens.insert(sample.tokens.end(), event->tokens.begin(), event->tokens.end());
    if (!event->finished) continue;
    if (event->reason == FinishReason::kError) return event->error;
    sample.stats = std::move(event->stats);
  }
  return sample;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

RunnerRow summarize(const std::vector<Sample>& samples, const std::vector<Sample>& baseline) {
  RunnerRow row;
  std::vector<double> speed, step, per_step, first, draft_steps, target_ms, draft_ms;
  double seconds = 0.0, baseline_seconds = 0.0;
  int64_t drafted = 0, accepted = 0;
  row.ratio_worst = std::numeric_limits<double>::infinity();
  for (size_t idx = 0; idx < samples.size(); ++idx) {
    const RequestStats& stats = samples[idx].stats;
    speed.push_back(stats.tokens_per_s());
    per_step.push_back(stats.tokens_per_step());
    first.push_back(1000.0 * stats.time_to_first_token_s);
    target_ms.push_back(1000.0 * stats.target_step_s);
    if (stats.draft_step_s > 0) draft_ms.push_back(1000.0 * stats.draft_step_s);
    if (stats.target_steps > 0) {
      const double steps = static_cast<double>(stats.target_steps);
      step.push_back(1000.0 * stats.decode_s / steps);
      draft_steps.push_back(static_cast<double>(stats.draft_steps) / steps);
    }
    drafted += stats.drafted_tokens;
    accepted += stats.accepted_tokens;
    row.identical += samples[idx].tokens == baseline[idx].tokens ? 1 : 0;
    if (stats.decode_s > 0) {
      seconds += stats.decode_s;
      baseline_seconds += baseline[idx].stats.decode_s;
      row.ratio_worst = std::min(row.ratio_worst, baseline[idx].stats.decode_s / stats.decode_s);
    }
  }
  row.prompts = static_cast<int>(samples.size());
  row.strategy = samples.front().stats.strategy;
  row.tokens_per_s = median(speed);
  row.tokens_per_step = median(per_step);
  row.step_ms = median(step);
  row.target_ms = median(target_ms);
  row.draft_ms = median(draft_ms);
  row.draft_steps_per_step = median(draft_steps);
  row.time_to_first_token_ms = median(first);
  row.acceptance = drafted > 0 ? static_cast<double>(accepted) / static_cast<double>(drafted) : 0.0;
  row.ratio_to_baseline = seconds > 0 ? baseline_seconds / seconds : 0.0;
  if (seconds <= 0) row.ratio_worst = 0.0;
  return row;
}

}  // namespace

Result<std::vector<RunnerRow>> run(Engine& engine, const RunnerOptions& options) {
  const size_t num_strategies = options.strategies.size();
  const int total =
      static_cast<int>(options.temperatures.size() * options.prompts.size() * num_strategies) *
          options.repeats +
      options.warmups;
  int done = 0;
  const auto progress = [&] {
    if (options.on_progress) options.on_progress(done, total);
    ++done;
  };
  const auto request_for = [&](size_t prompt_idx, size_t strategy_idx, float temperature) {
    Request request;
    request.prompt = options.prompts[prompt_idx];
    request.sampling = options.sampling;
    request.sampling.temperature = temperature;
    request.sampling.seed = options.first_seed + prompt_idx;
    request.max_new_tokens = options.max_new_tokens;
    request.ignore_eos = true;
    request.share_prefix = options.reuse_prompts;
    request.speculation = options.speculation;
    request.speculation->strategy = options.strategies[strategy_idx];
    return request;
  };

  for (int warmup = 0; warmup < options.warmups; ++warmup) {
    progress();
    const size_t strategy_idx = static_cast<size_t>(warmup) % num_strategies;
    const auto sample = run_once(engine, request_for(0, strategy_idx, 0.0f));
    if (!sample.ok()) return sample.status();
  }
  std::vector<RunnerRow> rows;
  for (const float temperature : options.temperatures) {
    std::vector<std::vector<Sample>> samples(num_strategies);
    for (size_t prompt_idx = 0; prompt_idx < options.prompts.size(); ++prompt_idx) {
      std::vector<Sample> best(num_strategies);
      if (options.reuse_prompts) {
        const auto sent = run_once(engine, request_for(prompt_idx, 0, temperature));
        if (!sent.ok()) return sent.status();
      }
      for (int repeat = 0; repeat < options.repeats; ++repeat) {
        for (size_t strategy_idx = 0; strategy_idx < num_strategies; ++strategy_idx) {
          progress();
          FORERUN_ASSIGN_OR_RETURN(
              Sample sample, run_once(engine, request_for(prompt_idx, strategy_idx, temperature)));
          Sample& kept = best[strategy_idx];
          if (repeat == 0 || sample.stats.decode_s < kept.stats.decode_s) kept = std::move(sample);
        }
      }
      for (size_t strategy_idx = 0; strategy_idx < num_strategies; ++strategy_idx) {
        samples[strategy_idx].push_back(std::move(best[strategy_idx]));
      }
    }
    for (size_t strategy_idx = 0; strategy_idx < num_strategies; ++strategy_idx) {
      rows.push_back(summarize(samples[strategy_idx], samples.front()));
      rows.back().temperature = temperature;
    }
  }
  return rows;
}

}  // namespace forerun::bench
