#include "engine/loop/automatic_plans.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "step/step.h"

namespace forerun {

void AutomaticPlans::begin(ActiveRequest& request) const {
  if (choice_ == nullptr || !request.plan().automatic) return;
  request.begin_with(choice_->plan(request.usual_plan()));
}

bool AutomaticPlans::follow(ActiveRequest& request) const {
  if (choice_ == nullptr || !request.plan().automatic) return false;
  return request.follow(choice_->plan(request.usual_plan()));
}

void AutomaticPlans::observe(const SpeculationPlan& plan, const WorkResult& result,
                             const StrategyOutput& out) {
  if (choice_ == nullptr || out.tokens.empty()) return;
  choice_->observe(plan, static_cast<int32_t>(result.rows.size()) - 1,
                   static_cast<int32_t>(out.tokens.size()) - 1);
}

void AutomaticPlans::look(const DecodingBatch& batch, const SharedAcceptance& acceptance) {
  if (choice_ == nullptr || costs_ == nullptr) return;
  const int64_t sequences = batch.sequences();
  const KvUsage usage = executor_->kv_usage(Role::kTarget);
  const BatchLoad load = {.sequences = static_cast<int32_t>(sequences),
                          .context_tokens = batch.tokens() / std::max<int64_t>(sequences, 1),
                          .free_tokens = kKvBlockTokens * (usage.total_blocks - usage.used_blocks)};
  const int64_t draft_prompts = costs_->draft_prompt_steps();
  const bool draft_reads = std::exchange(draft_prompt_steps_, draft_prompts) != draft_prompts;
  const std::chrono::duration<double> now = Clock::now().time_since_epoch();
  if (choice_->look(*costs_, load,
                    {.tokens = batch.automatic_tokens(),
                     .seconds = now.count(),
                     .sequences = static_cast<int32_t>(batch.automatic_sequences()),
                     .is_measurable = batch.all_decode() && !draft_reads,
                     .speedup_by_text = acceptance.by_text.speedup(),
                     .speedup_by_draft = acceptance.by_draft.speedup()})) {
    has_changed_ = true;
  }
}

}  // namespace forerun
