#include "engine/load/source_arms.h"

#include <string_view>

#include "strategies/strategy_table.h"

namespace forerun {
namespace {

constexpr GuessSources kArms[] = {
    {.text = true, .drafts = true},
    {.text = true, .drafts = false},
    {.text = false, .drafts = true},
    {.text = false, .drafts = false},
};

}  // namespace

std::vector<GuessSources> source_arms(const SpeculationPlan& plan) {
  const GuessSources has = {.text = !plan.source.others.empty(), .drafts = plan.source.model};
  if (plan.shape.kind != TreeShape::Kind::kAdaptive || !has.any() ||
      std::string_view(plan.strategy->name) != "serial_tree") {
    return {GuessSources{}};
  }
  std::vector<GuessSources> arms;
  for (const GuessSources& arm : kArms) {
    if ((has.text || !arm.text) && (has.drafts || !arm.drafts)) arms.push_back(arm);
  }
  return arms;
}

}  // namespace forerun
