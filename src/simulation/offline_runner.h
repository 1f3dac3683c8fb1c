// Runs requests offline, on any executor, by any clock, on the calling thread: how strategies are
// measured on simulated machines and compared with emulated ones. No text, no events, no
// preemption; the engine's loop is engine_loop.h.
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
  int32_t new_tokens = 1;       // at least 1; ends there and nowhere else
  SamplingParams sampling;
  bool shared_noise = true;
};

struct OfflineResult {
  std::vector<TokenId> tokens;  // the output
  StrategyStats stats;
  double start_seconds = 0.0;  // by the clock given
  double first_token_seconds = 0.0;
  double last_token_seconds = 0.0;

  // Output tokens but the first, a second, after the first.
  double tokens_per_s() const;
  // The first token comes from the prefill.
  double tokens_per_step() const;
};

struct OfflineOptions {
  int32_t max_active = 1;         // requests at a time; others wait in order
  std::function<double()> clock;  // seconds
  // Makes the strategy of requests[index].
  std::function<std::unique_ptr<Strategy>(size_t index)> make_strategy;
  // Called as tokens of requests[index] come; may be empty.
  std::function<void(size_t index, size_t tokens)> on_tokens = {};
  // Not null: strategies are told what Steps cost beside the others, as in the engine
  // (exec/batch_costs.h), the host's turns aside.
  const LiveCosts* costs = nullptr;
  bool drafts_sequentially = true;  // as BatchCosts takes it
};

// In the order of `requests`. Fails with the first request's failure, and where the executor has
// nothing left to do before a request has its tokens (kInternal). Sequences are closed either way;
// none of `executor` may be open.
Result<std::vector<OfflineResult>> run_offline(Executor& executor,
                                               std::span<const OfflineRequest> requests,
                                               const OfflineOptions& options);

}  // namespace forerun
