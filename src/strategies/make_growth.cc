#include "strategies/make_growth.h"

#include <utility>
#include <vector>

#include "strategies/adaptive_growth.h"
#include "strategies/fixed_growth.h"

namespace forerun {

static_assert(kMaxTreeRows <= CostTable::kMaxRows, "what a tree's rows cost is known");

std::unique_ptr<TreeGrowth> make_growth(const SpeculationPlan& plan, bool runs_beside,
                                        std::shared_ptr<SharedAcceptance> shared) {
  switch (plan.shape.kind) {
    case TreeShape::Kind::kAdaptive:
      return std::make_unique<AdaptiveGrowth>(
          AdaptiveGrowth::Params{.children_per_leaf = plan.children_per_leaf,
                                 .has_draft_model = plan.source.model,
                                 .runs_beside = runs_beside},
          std::move(shared));
    case TreeShape::Kind::kBest:
      return std::make_unique<BestGrowth>(
          BestGrowth::Params{.verify_tokens = plan.verify_tokens,
                             .draft_width = plan.draft_width,
                             .draft_depth = runs_beside ? kMaxTreeRows : plan.draft_depth,
                             .children_per_leaf = plan.children_per_leaf,
                             .has_draft_model = plan.source.model,
                             .tops_up = runs_beside});
    case TreeShape::Kind::kChain:
      return std::make_unique<StaticGrowth>(
          std::vector<int32_t>(static_cast<size_t>(plan.draft_depth), 1));
    case TreeShape::Kind::kStatic:
    case TreeShape::Kind::kLevels:  // only pipelined accepts it, and grows its tree itself
      break;
  }
  return std::make_unique<StaticGrowth>(plan.shape.children);
}

}  // namespace forerun
