// Runs a strategy against simulated models on a pipelined target, in lockstep: in every step each
// stage works on one item, and an item's results arrive when it leaves the last stage. Links take
// no time and every item takes equally long, so the measure is steps per token.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulation/strict_executor.h"
#include "strategies/strategy_table.h"

namespace forerun {

struct SimulatedStages {
  double steps_per_token = 0.0;  // the first token's pass included
  std::vector<TokenId> tokens;
  std::vector<std::string> breaches;
};

// `draft_steps` is the number of draft Steps in the time of a stage. Stops after `tokens` tokens.
inline SimulatedStages simulate_stages(const SpeculationOptions& options,
                                       const AcceptanceModel& models, int32_t tokens,
                                       int32_t stages, int32_t draft_steps,
                                       const SamplingParams& sampling = {}) {
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5};
  const auto prompt_tokens = static_cast<int32_t>(prompt.size());
  // Room beyond the last token, so that the pipeline does not run empty at the end.
  const int32_t max_tokens = prompt_tokens + tokens + 64 * stages;
  const auto strategy = resolve_speculation(options).value()->make_strategy({});
  StrictExecutor executor(models, {.max_tokens = max_tokens});
  SimulatedStages run;
  StrategyOutput out;
  const auto take_output = [&] {
    for (const EmittedToken& token : out.tokens) run.tokens.push_back(token.token);
    for (WorkItem& item : out.work) executor.submit(std::move(item));
    out.clear();
  };
  const auto hand_over = [&](const WorkResult& result) {
    strategy->on_result(result, out);
    take_output();
  };
  strategy->start({.sequence = 1,
                   .tokens = prompt,
                   .prompt_tokens = prompt_tokens,
                   .max_tokens = max_tokens,
                   .sampling = sampling},
                  out);
  take_output();
  // The item of each stage; that of the first stage is last.
  std::deque<std::optional<WorkResult>> pipe(static_cast<size_t>(stages));
  int64_t steps = 0;
  const int64_t most_steps = int64_t{stages} * tokens + stages;
  while (static_cast<int32_t>(run.tokens.size()) < tokens && steps <= most_steps) {
    ++steps;
    std::optional<WorkResult> entered;
    while (executor.has_work(Role::kTarget) && !entered) entered = executor.run(Role::kTarget);
    const uint64_t tag = entered ? entered->tag : 0;  // strategies count from 1
    pipe.push_back(std::move(entered));
    pipe.pop_front();
    for (int32_t draft = 0; draft < draft_steps && executor.has_work(Role::kDraft); ++draft) {
      if (const auto drafted = executor.run(Role::kDraft)) hand_over(*drafted);
    }
    // An item leaves the last stage at the end of its step there.
    if (const auto left = std::exchange(pipe.front(), std::nullopt)) hand_over(*left);
    if (tag == 0) continue;
    WorkResult notice;
    notice.sequence = 1;
    notice.role = Role::kTarget;
    notice.tag = tag;
    notice.entered = true;
    hand_over(notice);
  }
  run.steps_per_token = static_cast<double>(steps) / static_cast<double>(run.tokens.size());
  run.breaches = executor.breaches();
  return run;
}

}  // namespace forerun
