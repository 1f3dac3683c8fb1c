#include "engine/load/view_candidates.h"

#include "planner/assumed_acceptance.h"
#include "step/step.h"
#include "views/view_table.h"

namespace forerun {
namespace {

constexpr int32_t kBudgets[] = {512, 1024, 2048};  // tokens

// Returns the cost of selecting tokens at a draft Step, as a share of the time of reading the whole
// KV cache. The cost of rerunning the last tokens is spread over the draft Steps that use the
// result.
double selection_share(const KvViewEntry& view, int32_t budget, double kv_reads_per_selection) {
  const int32_t tokens = view.tokens_between_reruns(budget);
  return view.facts.selection_share + (tokens > 0 ? kv_reads_per_selection / tokens : 0.0);
}

}  // namespace

SpeculationOptions self_options(const SpeculationCandidate& candidate, int32_t gamma) {
  SpeculationOptions options;
  options.strategy = "sparse_self";
  options.view = candidate.view;
  options.view_budget = static_cast<int32_t>(candidate.draft.budget_tokens);
  options.draft_depth = gamma;
  return options;
}

std::vector<SpeculationCandidate> view_candidates(const ModelFacts& models,
                                                  double kv_reads_per_selection,
                                                  const ResolvePlan& resolve) {
  std::vector<SpeculationCandidate> found;
  const KvShape longest = {.tokens = models.max_context,
                           .head_dim = models.head_dim[static_cast<size_t>(Role::kTarget)]};
  for (const KvViewEntry& view : view_table()) {
    if (!view.facts.by_default) continue;
    for (const int32_t budget : kBudgets) {
      // A view of most of the context saves no time.
      if (models.max_context > 0 && 2 * budget > models.max_context) continue;
      SpeculationCandidate candidate = {
          .draft = {.budget_tokens = budget,
                    .grown_tokens = view.tokens_between_reruns(budget) / 2,
                    .selection_share = selection_share(view, budget, kv_reads_per_selection)},
          .view = view.name,
          .acceptance = assumed_acceptance(view.facts, budget),
          .own_tokens = int64_t{kKvBlockTokens} * view.own_blocks(budget, longest),
          .kv_reads_to_begin =
              view.tokens_between_reruns(budget) > 0 ? kv_reads_per_selection : 0.0};
      if (resolve(self_options(candidate, 1)).ok()) found.push_back(std::move(candidate));
    }
  }
  return found;
}

}  // namespace forerun
