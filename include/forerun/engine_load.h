// The load of an engine, for routers that choose among engines and for dashboards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forerun {

// The KV memory of one model, in blocks of `block_tokens` positions of one sequence.
struct KvLoad {
  int64_t used_blocks = 0;   // blocks that running requests hold
  int64_t total_blocks = 0;  // 0: the engine has no such model
  int32_t block_tokens = 0;
};

// Sums over the requests of one strategy, running ones included.
struct StrategyLoad {
  std::string strategy;
  int64_t output_tokens = 0;
  int64_t target_steps = 0;  // number of Steps after the prefill
  int64_t drafted_tokens = 0;
  int64_t accepted_tokens = 0;
  double acceptance() const {
    return drafted_tokens > 0
               ? static_cast<double>(accepted_tokens) / static_cast<double>(drafted_tokens)
               : 0.0;
  }
};

// The state of an engine as routers see it.
enum class EngineCondition : uint8_t {
  kServing,  // it accepts and runs requests, or will again within seconds
  kAway,     // its processes are being replaced, which takes long; requests wait
  kGivenUp,  // it will not work again: requests are refused
};

// A snapshot of an engine's load. Each sample of a request counts as one request.
struct EngineLoad {
  EngineCondition condition = EngineCondition::kServing;
  std::string condition_reason;  // why it is not kServing

  int32_t running_requests = 0;
  int32_t waiting_requests = 0;  // preempted ones included
  KvLoad target_kv;
  KvLoad draft_kv;

  // Over the last ten seconds, or since the engine was created.
  double output_tokens_per_s = 0.0;
  double prompt_tokens_per_s = 0.0;  // computed tokens only

  // Totals since the engine was created.
  int64_t output_tokens = 0;
  int64_t prompt_tokens = 0;  // computed tokens; a prompt counts once all of it has been read
  int64_t reused_prompt_tokens = 0;  // tokens whose KV was already in the cache
  int64_t ended_requests = 0;        // requests that ended, for any reason
  int64_t preemptions = 0;
  // Number of draft work items that failed by a device's error or a defect (kInternal). Items that
  // failed by a request's own fault do not count.
  int64_t draft_faults = 0;
  std::vector<StrategyLoad> strategies;  // strategies that have had requests
};

}  // namespace forerun
