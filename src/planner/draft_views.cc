#include "planner/draft_views.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "views/view_table.h"

namespace forerun {

const std::vector<DraftView>& draft_views() {
  static const std::vector<DraftView> views = [] {
    std::vector<DraftView> all;
    for (const KvViewEntry& entry : view_table()) {
      const KvViewFacts& facts = entry.facts;
      DraftView view{entry.name, entry.help, facts.budget, facts.selection_share, {}};
      if (facts.published_acceptance > 0) view.published_acceptance = facts.published_acceptance;
      all.push_back(std::move(view));
    }
    return all;
  }();
  return views;
}

const DraftView* find_draft_view(const std::string& name) {
  for (const DraftView& view : draft_views()) {
    if (view.name == name) return &view;
  }
  return nullptr;
}

Status check_budget(const DraftView& view, int64_t budget) {
  return find_view(view.name)->check(
      static_cast<int32_t>(std::clamp<int64_t>(budget, 0, INT32_MAX)));
}

double acceptance_at(double published, int64_t published_budget, int64_t budget) {
  if (budget >= published_budget || budget <= 0) return published;
  const double less = static_cast<double>(published_budget) / static_cast<double>(budget);
  return std::max(0.0, 1.0 - (1.0 - published) * std::pow(less, 0.25));
}

}  // namespace forerun
