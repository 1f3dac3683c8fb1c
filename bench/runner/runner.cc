#include "runner/runner.h"

#include <utility>

#include "base/status_macros.h"
#include "runner/timed_queue.h"

namespace forerun::bench {
namespace {

// Returns nothing if `stop` ended it.
Result<std::optional<RunnerSample>> run_once(Engine& engine, Request request,
                                             const std::function<bool()>& stop) {
  FORERUN_ASSIGN_OR_RETURN(const std::shared_ptr<RequestStream> stream,
                           engine.submit(std::move(request)));
  RunnerSample sample;
  while (true) {
    const std::optional<Event> event = stream->next_for(kStopPoll);
    if (stop && stop()) return std::optional<RunnerSample>();  // dropping the stream cancels it
    if (!event) continue;
    sample.tokens.insert(sample.tokens.end(), event->tokens.begin(), event->tokens.end());
    if (!event->finished) continue;
    if (event->reason == FinishReason::kError) return event->error;
    sample.stats = event->stats;
    return std::optional<RunnerSample>(std::move(sample));
  }
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
    request.speculation = options_for(options.strategies[strategy_idx], options.speculation);
    return request;
  };

  const auto stopped = [&] { return options.stop && options.stop(); };
  for (int warmup = 0; warmup < options.warmups && !stopped(); ++warmup) {
    progress();
    const size_t strategy_idx = static_cast<size_t>(warmup) % num_strategies;
    const auto sample = run_once(engine, request_for(0, strategy_idx, 0.0f), options.stop);
    if (!sample.ok()) return sample.status();
  }
  std::vector<RunnerRow> rows;
  for (const float temperature : options.temperatures) {
    std::vector<std::vector<RunnerSample>> samples(num_strategies);
    for (size_t prompt_idx = 0; prompt_idx < options.prompts.size() && !stopped(); ++prompt_idx) {
      std::vector<std::optional<RunnerSample>> best(num_strategies);
      if (options.reuse_prompts) {
        const auto sent = run_once(engine, request_for(prompt_idx, 0, temperature), options.stop);
        if (!sent.ok()) return sent.status();
      }
      for (int repeat = 0; repeat < options.repeats && !stopped(); ++repeat) {
        for (size_t strategy_idx = 0; strategy_idx < num_strategies; ++strategy_idx) {
          progress();
          FORERUN_ASSIGN_OR_RETURN(
              std::optional<RunnerSample> sample,
              run_once(engine, request_for(prompt_idx, strategy_idx, temperature), options.stop));
          if (!sample) break;
          std::optional<RunnerSample>& kept = best[strategy_idx];
          if (!kept || sample->stats.decode_s < kept->stats.decode_s) kept = std::move(sample);
        }
      }
      if (!best.back()) break;  // they take turns, so the last one has been stopped first
      for (size_t strategy_idx = 0; strategy_idx < num_strategies; ++strategy_idx) {
        samples[strategy_idx].push_back(*std::move(best[strategy_idx]));
      }
    }
    if (samples.front().empty()) break;
    for (size_t strategy_idx = 0; strategy_idx < num_strategies; ++strategy_idx) {
      rows.push_back(summarize(samples[strategy_idx], samples.front()));
      rows.back().temperature = temperature;
    }
  }
  return rows;
}

}  // namespace forerun::bench
