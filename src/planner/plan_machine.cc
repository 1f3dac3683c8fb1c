#include "planner/plan_machine.h"

#include <algorithm>
#include <utility>

namespace forerun {
namespace {

// Of a GPU's memory, what buffers, graphs and the driver leave to weights and caches.
constexpr double kUsable = 0.92;

Result<DeviceWork> work_for(const char* model, const ModelConfig& config, int32_t degree) {
  auto work = device_work(config, degree);
  if (work.ok()) return work;
  return Status(work.status().code(), std::string(model) + ": " + work.status().message());
}

}  // namespace

Result<PlannedMachine> describe_machine(const GpuGroup& group, const ModelConfig& target,
                                        const ModelConfig* draft) {
  PlannedMachine machine;
  machine.name = std::to_string(group.count) + " x " + group.gpu.name;
  PlannedMachine::Memory memory;
  FORERUN_ASSIGN_OR_RETURN(memory.target, work_for("--model", target, group.count));
  add_roofline(memory.target, group, Role::kTarget, machine.costs);
  if (draft != nullptr) {
    FORERUN_ASSIGN_OR_RETURN(memory.draft, work_for("--draft", *draft, group.count));
    add_roofline(*memory.draft, group, Role::kDraft, machine.costs);
  }
  memory.usable_bytes = kUsable * group.gpu.memory_bytes;
  machine.memory = std::move(memory);
  return machine;
}

bool fits(const PlannedMachine& machine, const BatchLoad& load,
          const SpeculationCandidate* candidate) {
  if (!machine.memory) return true;
  const PlannedMachine::Memory& memory = *machine.memory;
  const auto tokens = [&](int64_t each) {
    return static_cast<double>(load.sequences) * static_cast<double>(each);
  };
  double bytes =
      memory.target.resident_bytes + tokens(load.context_tokens) * memory.target.kv_token_bytes;
  if (candidate != nullptr) {
    const int64_t budget = candidate->draft.budget_tokens;
    const int64_t seen = budget > 0 ? std::min(budget, load.context_tokens) : load.context_tokens;
    if (candidate->draft.model == Role::kDraft) {
      if (!memory.draft) return false;
      bytes += memory.draft->resident_bytes + tokens(seen) * memory.draft->kv_token_bytes;
    } else {
      // A gathered view's blocks. Of one in place some hundred tokens too many are counted.
      bytes += tokens(seen) * memory.target.kv_token_bytes;
    }
  }
  return bytes <= memory.usable_bytes;
}

const SpeculationForecast* BatchPlan::best_guessing() const {
  for (const SpeculationForecast& each : ranked) {
    if (!each.is_plain()) return &each;
  }
  return nullptr;
}

BatchPlan plan_batch(const PlannedMachine& machine, const BatchLoad& load,
                     const std::vector<SpeculationCandidate>& candidates,
                     const RankOptions& options) {
  BatchPlan plan{.load = load, .fits = fits(machine, load, nullptr), .ranked = {}};
  if (!plan.fits) return plan;
  plan.ranked = rank_speculation(machine.costs, load, candidates, options);
  std::erase_if(plan.ranked, [&](const SpeculationForecast& each) {
    return !each.is_plain() &&
           !fits(machine, load, &candidates[static_cast<size_t>(each.candidate)]);
  });
  return plan;
}

}  // namespace forerun
