// Runs requests offline on the calling thread, on any executor and with any clock. Benches use it
// to measure strategies on simulated machines and to compare them with emulated ones. It has no
// text, events or preemption; the engine's own loop is engine_loop.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "exec/live_costs.h"
#include "forerun/sampling_params.h"
#include "forerun/status.h"
#include "strategies/strategy.h"

namespace forerun {

struct OfflineRequest {
  std::vector<TokenId> prompt;  // not empty
  int32_t new_tokens = 1;       // number of output tokens, at least 1
  SamplingParams sampling;
  bool shared_noise = true;
};

struct OfflineResult {
  std::vector<TokenId> tokens;  // the output
  StrategyStats stats;
  double start_seconds = 0.0;  // start of the request, by the given clock
  double first_token_seconds = 0.0;
  double last_token_seconds = 0.0;

  // Returns output tokens per second after the first token, which does not count.
  double tokens_per_s() const;
  // Returns output tokens per target Step, without the first token, which comes from the prefill.
  double tokens_per_step() const;
};

struct OfflineOptions {
  int32_t max_active = 1;         // number of requests that run at a time; others wait in order
  std::function<double()> clock;  // seconds
  // Makes the strategy of requests[index].
  std::function<std::unique_ptr<Strategy>(size_t index)> make_strategy;
  // Called as tokens of requests[index] come; may be empty.
  std::function<void(size_t index, size_t tokens)> on_tokens = {};
  // If not null, strategies receive the costs of Steps in a batch with the other requests, as in
  // the engine (exec/batch_costs.h), but without the time of the host's turns.
  const LiveCosts* costs = nullptr;
  bool drafts_sequentially = true;  // passed to BatchCosts
};

// Returns results in the order of `requests`. Fails with the failure of the first request that
// fails, and with kInternal if the executor runs out of work before a request has all its tokens.
// `executor` must have no open sequence, and has none afterwards, also after a failure.
Result<std::vector<OfflineResult>> run_offline(Executor& executor,
                                               std::span<const OfflineRequest> requests,
                                               const OfflineOptions& options);

}  // namespace forerun
