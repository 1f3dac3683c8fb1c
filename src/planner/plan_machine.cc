#include "planner/plan_machine.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/status_macros.h"
#include "step/step.h"
#include "views/view_table.h"

namespace forerun {
namespace {

// The share of a GPU's memory for weights and KV caches; buffers, graphs and the driver take the
// rest.
constexpr double kUsable = 0.92;

Result<DeviceWork> work_for(const char* model, const ModelConfig& config, int32_t degree) {
  auto work = device_work(config, degree);
  if (work.ok()) return work;
  return Status(work.status().code(), std::string(model) + ": " + work.status().message());
}

// Returns the tokens of KV cache that a sequence takes for its view, in addition to its own.
int64_t own_tokens(const SpeculationCandidate& candidate, const BatchLoad& load, int32_t head_dim) {
  const KvViewEntry* const view = find_view(candidate.view);
  if (view == nullptr) return 0;
  const auto tokens = [](int64_t count) {
    return static_cast<int32_t>(std::min<int64_t>(count, INT32_MAX));
  };
  return int64_t{kKvBlockTokens} *
         view->own_blocks(tokens(candidate.draft.budget_tokens),
                          {.tokens = tokens(load.context_tokens), .head_dim = head_dim});
}

// The ratio between the lengths that are tried; the crossing is then found between two of them.
constexpr double kLengthRatio = 1.1892071150027211;  // a quarter of an octave
constexpr double kShortest = 16.0;

std::optional<int64_t> last_crossing(int64_t max_context,
                                     const std::function<bool(int64_t)>& pays) {
  if (max_context < 1 || !pays(max_context)) return std::nullopt;
  int64_t paying = max_context;
  int64_t failing = 0;
  for (double length = static_cast<double>(max_context) / kLengthRatio; length >= kShortest;
       length /= kLengthRatio) {
    const auto context = static_cast<int64_t>(length);
    if (!pays(context)) {
      failing = context;
      break;
    }
    paying = context;
  }
  if (failing == 0) return 1;
  while (paying - failing > 1) {
    const int64_t middle = failing + (paying - failing) / 2;
    (pays(middle) ? paying : failing) = middle;
  }
  return paying;
}

// Returns the speed-up over plain decoding of the best setting that fits; 1 if none is faster.
double best_speedup(const PlannedMachine& machine, const BatchLoad& load,
                    const std::vector<SpeculationCandidate>& candidates,
                    const RankOptions& options) {
  const BatchPlan plan = plan_batch(machine, load, candidates, options);
  return plan.fits ? plan.ranked.front().speedup : 1.0;
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
  machine.round_seconds = group.gpu.host.round;
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
    if (candidate->draft.model == Role::kDraft) {
      if (!memory.draft) return false;
      // A draft model with a view keeps only the part of its KV cache that the view shows.
      const int64_t budget = candidate->draft.budget_tokens;
      const int64_t seen = budget > 0 ? std::min(budget, load.context_tokens) : load.context_tokens;
      bytes += memory.draft->resident_bytes + tokens(seen) * memory.draft->kv_token_bytes;
    } else {
      bytes += tokens(own_tokens(*candidate, load, memory.target.head_dim)) *
               memory.target.kv_token_bytes;
    }
    if (candidate->draft.checks.by_model) {
      if (!memory.draft) return false;
      const int64_t guessed_from = candidate->draft.checks.budget_tokens;
      bytes += memory.draft->resident_bytes +
               tokens(guessed_from > 0 ? std::min(guessed_from, load.context_tokens)
                                       : load.context_tokens) *
                   memory.draft->kv_token_bytes;
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
  RankOptions with_host = options;
  with_host.round_overhead += machine.round_seconds;
  plan.ranked = rank_speculation(machine.costs, load, candidates, with_host);
  std::erase_if(plan.ranked, [&](const SpeculationForecast& each) {
    return !each.is_plain() &&
           !fits(machine, load, &candidates[static_cast<size_t>(each.candidate)]);
  });
  return plan;
}

int64_t longest_context(const PlannedMachine& machine, int32_t sequences,
                        const std::vector<SpeculationCandidate>& candidates, int64_t max_context) {
  const auto some_fits = [&](int64_t context) {
    return std::any_of(candidates.begin(), candidates.end(), [&](const auto& candidate) {
      return fits(machine, {sequences, context}, &candidate);
    });
  };
  if (some_fits(max_context)) return max_context;
  int64_t fitting = 0;
  int64_t failing = max_context;
  while (failing - fitting > 1) {
    const int64_t middle = fitting + (failing - fitting) / 2;
    (some_fits(middle) ? fitting : failing) = middle;
  }
  return fitting;
}

std::optional<int64_t> critical_context(const PlannedMachine& machine, int32_t sequences,
                                        const std::vector<SpeculationCandidate>& candidates,
                                        int64_t max_context, const RankOptions& options) {
  return last_crossing(
      longest_context(machine, sequences, candidates, max_context), [&](int64_t context) {
        return best_speedup(machine, {sequences, context}, candidates, options) > 1.0;
      });
}

std::optional<int64_t> inflection_context(const PlannedMachine& machine, int32_t few_sequences,
                                          int32_t many_sequences,
                                          const std::vector<SpeculationCandidate>& candidates,
                                          int64_t max_context, const RankOptions& options) {
  return last_crossing(
      longest_context(machine, many_sequences, candidates, max_context), [&](int64_t context) {
        const double many = best_speedup(machine, {many_sequences, context}, candidates, options);
        // If speculation pays for neither batch, this is not the inflection point.
        return many > 1.0 &&
               many >= best_speedup(machine, {few_sequences, context}, candidates, options);
      });
}

}  // namespace forerun
